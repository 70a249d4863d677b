package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
)

// issue ensures that all certificates of the control plane exist and are valid. The subjects are
// those that Kubernetes' own roles bind.
func issue(c Config) (config.Certificates, error) {
	const client, server = pki.Client, pki.Server
	local := []string{"localhost", "127.0.0.1"}
	address := c.Address.String()
	var out config.Certificates
	for _, i := range []struct {
		to      *pki.Pair
		from    *pki.Authority
		name    string
		request pki.Request
	}{
		{&out.EtcdServer, c.PKI.Etcd, "server", pki.Request{UsedBy: "etcd", CN: c.NodeName, SANs: append(local, address), Usages: client | server}},
		{&out.EtcdPeer, c.PKI.Etcd, "peer", pki.Request{UsedBy: "etcd", CN: c.NodeName, SANs: append(local, address), Usages: client | server}},
		{&out.EtcdClient, c.PKI.Etcd, "kube-apiserver-client", pki.Request{UsedBy: "kube-apiserver", CN: "kube-apiserver-etcd-client", Usages: client}},
		{&out.FrontProxy, c.PKI.FrontProxy, "client", pki.Request{UsedBy: "kube-apiserver", CN: "front-proxy-client", Usages: client}},
		{&out.APIServer, c.PKI.Cluster, "kube-apiserver", pki.Request{UsedBy: "kube-apiserver", CN: "kube-apiserver", Usages: server, SANs: append(local, address, c.NodeName,
			config.KubernetesIP(c.ServiceCIDR).String(), "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc."+config.Domain)}},
		// Its own group rather than system:masters, because it only needs the kubelets' API (see
		// bindKubeletClient).
		{&out.APIServerKubelet, c.PKI.Cluster, "kube-apiserver-kubelet-client", pki.Request{UsedBy: "kube-apiserver", CN: "kube-apiserver-kubelet-client", Org: []string{kubeletClients}, Usages: client}},
		{&out.ControllerManager, c.PKI.Cluster, "kube-controller-manager", pki.Request{UsedBy: "kube-controller-manager", CN: "system:kube-controller-manager", SANs: local, Usages: client | server}},
		{&out.Scheduler, c.PKI.Cluster, "kube-scheduler", pki.Request{UsedBy: "kube-scheduler", CN: "system:kube-scheduler", SANs: local, Usages: client | server}},
		{&out.Kubelet, c.PKI.Cluster, "kubelet", pki.Request{UsedBy: "kubelet", CN: "system:node:" + c.NodeName, Org: []string{"system:nodes"}, SANs: []string{c.NodeName, address}, Usages: server}},
		{&out.KubeletClient, c.PKI.Cluster, "kubelet-client", pki.Request{UsedBy: "kubelet", CN: "system:node:" + c.NodeName, Org: []string{"system:nodes"}, Usages: client}},
		{&out.Proxy, c.PKI.Cluster, "kube-proxy", pki.Request{UsedBy: "kube-proxy", CN: "system:kube-proxy", Usages: client}},
		{&out.Admin, c.PKI.Cluster, "admin", pki.Request{UsedBy: "regiond, operators", CN: "regiond:admin", Org: []string{"system:masters"}, Usages: client}},
	} {
		pair, err := i.from.Issue(i.name, i.request)
		if err != nil {
			return config.Certificates{}, err
		}
		*i.to = pair
	}
	return out, nil
}

// kubeletClients is the group that may use the kubelets' API.
const kubeletClients = "regiond:kubelet-clients"

// writeKubeconfigs writes the kubeconfigs of all components and of the operator.
func writeKubeconfigs(n config.Node) error {
	c := n.Certificates
	for _, k := range []struct {
		path, user string
		pair       pki.Pair
		embed      bool
	}{
		{n.Kubeconfig("kube-controller-manager"), "kube-controller-manager", c.ControllerManager, false},
		{n.Kubeconfig("kube-scheduler"), "kube-scheduler", c.Scheduler, false},
		{n.Kubeconfig("kube-proxy"), "kube-proxy", c.Proxy, false},
		{n.Kubeconfig("kubelet"), "kubelet", c.KubeletClient, false},
		{n.Kubeconfig("regiond"), "regiond", c.Admin, false},
		{datadir.AdminKubeconfig.In(n.DataDir), "admin", c.Admin, true},
	} {
		err := n.PKI.Cluster.WriteKubeconfig(k.path, pki.Kubeconfig{Server: n.URL(), Cluster: "regiond", User: k.user, Pair: k.pair, Embed: k.embed})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeEncryptionKey generates the key that encrypts Secrets on first use. It is never replaced,
// because everything that it has encrypted would be lost.
func writeEncryptionKey(path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("encryption key: %w", err)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return fmt.Errorf("generating the encryption key: %w", err)
	}
	content, err := config.Encryption(base64.StdEncoding.EncodeToString(key))
	if err != nil {
		return fmt.Errorf("rendering the encryption key: %w", err)
	}
	return writeFile(path, content, 0o600)
}
