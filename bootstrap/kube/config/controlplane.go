package config

import (
	"fmt"
	"net/netip"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/bootstrap/datadir"
)

// Etcd returns etcd's arguments. It listens on the loopback address while it is the only member,
// but it advertises the real address to peers from the start: a member's peer URL is part of the
// cluster's data, and others will use it to join.
func (n Node) Etcd() []string {
	peer := EtcdPeerURL(n.Address)
	c := n.Certificates
	return []string{"etcd",
		"--name=" + n.Name,
		"--data-dir=" + datadir.Etcd.In(n.DataDir),
		"--listen-client-urls=" + n.EtcdURL(),
		"--advertise-client-urls=" + n.EtcdURL(),
		fmt.Sprintf("--listen-peer-urls=https://127.0.0.1:%d", EtcdPeerPort),
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + n.Name + "=" + peer,
		"--trusted-ca-file=" + n.PKI.Etcd.CertFile(),
		"--cert-file=" + c.EtcdServer.CertFile,
		"--key-file=" + c.EtcdServer.KeyFile,
		"--client-cert-auth=true",
		"--peer-trusted-ca-file=" + n.PKI.Etcd.CertFile(),
		"--peer-cert-file=" + c.EtcdPeer.CertFile,
		"--peer-key-file=" + c.EtcdPeer.KeyFile,
		"--peer-client-cert-auth=true",
		// The API server compacts every five minutes; this takes over while it is down.
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=1h",
		fmt.Sprintf("--quota-backend-bytes=%d", 4<<30),
		// etcd keeps the entries since the last snapshot in memory; the default of 10,000 is for clusters
		// with slow followers.
		"--snapshot-count=5000",
		"--log-level=warn",
	}
}

// EtcdPeerURL is by which the etcd member of a host is known to others.
func EtcdPeerURL(address netip.Addr) string {
	return "https://" + netip.AddrPortFrom(address, EtcdPeerPort).String()
}

// APIServer returns the API server's arguments.
func (n Node) APIServer() []string {
	c := n.Certificates
	return []string{"kube-apiserver",
		"--bind-address=" + n.Address.String(),
		"--advertise-address=" + n.Address.String(),
		fmt.Sprintf("--secure-port=%d", APIServerPort),
		"--tls-cert-file=" + c.APIServer.CertFile,
		"--tls-private-key-file=" + c.APIServer.KeyFile,
		"--client-ca-file=" + n.PKI.Cluster.CertFile(),
		"--authentication-config=" + n.authenticationFile(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--etcd-servers=" + n.EtcdURL(),
		"--etcd-cafile=" + n.PKI.Etcd.CertFile(),
		"--etcd-certfile=" + c.EtcdClient.CertFile,
		"--etcd-keyfile=" + c.EtcdClient.KeyFile,
		"--encryption-provider-config=" + n.EncryptionFile(),
		"--service-cluster-ip-range=" + n.ServiceCIDR.String(),
		"--service-account-issuer=https://kubernetes.default.svc." + Domain,
		"--service-account-key-file=" + n.PKI.ServiceAccountPublicKey(),
		"--service-account-signing-key-file=" + n.PKI.ServiceAccountKey(),
		"--kubelet-certificate-authority=" + n.PKI.Cluster.CertFile(),
		"--kubelet-client-certificate=" + c.APIServerKubelet.CertFile,
		"--kubelet-client-key=" + c.APIServerKubelet.KeyFile,
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + n.PKI.FrontProxy.CertFile(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + c.FrontProxy.CertFile,
		"--proxy-client-key-file=" + c.FrontProxy.KeyFile,
		"--endpoint-reconciler-type=lease",
		"--profiling=false",
	}
}

func (n Node) authenticationFile() string { return datadir.Config.In(n.DataDir, "authentication.yaml") }

// authentication renders the configuration that lets requests without credentials query only the
// API server's health. Client certificates and service-account tokens are configured by flags.
func (n Node) authentication() ([]byte, error) {
	type condition struct {
		Path string `json:"path"`
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "AuthenticationConfiguration",
		"anonymous": map[string]any{
			"enabled":    true,
			"conditions": []condition{{"/livez"}, {"/readyz"}, {"/healthz"}},
		},
	})
}

// EncryptionFile returns the path of the file with the key that encrypts Secrets in etcd.
func (n Node) EncryptionFile() string { return datadir.PKI.In(n.DataDir, "encryption.yaml") }

// Encryption renders the file with the key that encrypts Secrets in etcd: 32 random bytes in
// base64. XSalsa20-Poly1305 (secretbox) is the local provider that Kubernetes recommends. identity,
// last, would read Secrets from before encryption; there are none.
func Encryption(key string) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "EncryptionConfiguration",
		"resources": []any{map[string]any{
			"resources": []string{"secrets"},
			"providers": []any{
				map[string]any{"secretbox": map[string]any{"keys": []any{map[string]any{"name": "key1", "secret": key}}}},
				map[string]any{"identity": map[string]any{}},
			},
		}},
	})
}

// ControllerManager returns the controller manager's arguments.
func (n Node) ControllerManager() []string {
	kubeconfig := n.Kubeconfig("kube-controller-manager")
	c := n.Certificates.ControllerManager
	return []string{"kube-controller-manager",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--tls-cert-file=" + c.CertFile,
		"--tls-private-key-file=" + c.KeyFile,
		"--root-ca-file=" + n.PKI.Cluster.CertFile(),
		"--cluster-signing-cert-file=" + n.PKI.Cluster.CertFile(),
		"--cluster-signing-key-file=" + n.PKI.Cluster.KeyFile(),
		"--service-account-private-key-file=" + n.PKI.ServiceAccountKey(),
		"--use-service-account-credentials=true",
		// regiond assigns nodes' parts of the pod range (see FirstNodePodCIDR).
		"--allocate-node-cidrs=false",
		"--controllers=*,-node-ipam-controller",
		// At start, every controller requests its token, which takes four seconds with the default of 20
		// requests per second.
		"--kube-api-qps=100",
		"--kube-api-burst=200",
		"--leader-elect=false", // there is only one
		"--profiling=false",
		// Created at start; the default is below /usr/libexec.
		"--flex-volume-plugin-dir=" + n.volumePlugins(),
	}
}

// Scheduler returns the scheduler's arguments.
func (n Node) Scheduler() []string {
	kubeconfig := n.Kubeconfig("kube-scheduler")
	c := n.Certificates.Scheduler
	return []string{"kube-scheduler",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--tls-cert-file=" + c.CertFile,
		"--tls-private-key-file=" + c.KeyFile,
		"--leader-elect=false", // there is only one
		"--profiling=false",
	}
}
