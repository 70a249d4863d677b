package config

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/bootstrap/datadir"
)

// oomScoreAdj makes the kernel spare the kubelet and kube-proxy if the host allows lowering the
// score.
func (h Host) oomScoreAdj() int {
	if h.LowerOOMScore {
		return -999
	}
	return 0
}

func (h Host) cgroupDriver() string {
	if h.Systemd {
		return "systemd"
	}
	return "cgroupfs"
}

func (n Node) kubeletFile() string { return datadir.Config.In(n.DataDir, "kubelet.yaml") }

// PodLogs returns the folder of the logs of pods' containers.
func (n Node) PodLogs() string { return datadir.Log.In(n.DataDir, "pods") }

// ResolvConf returns the path of the resolv.conf for pods with the host's DNS.
func (n Node) ResolvConf() string { return datadir.Config.In(n.DataDir, "resolv.conf") }

// Kubelet returns the kubelet's arguments.
func (n Node) Kubelet() []string {
	return []string{"kubelet",
		"--config=" + n.kubeletFile(),
		"--kubeconfig=" + n.Kubeconfig("kubelet"),
		"--hostname-override=" + n.Name,
		"--node-ip=" + n.Address.String(),
		"--root-dir=" + datadir.Kubelet.In(n.DataDir),
		"--cert-dir=" + datadir.Kubelet.In(n.DataDir, "pki"),
	}
}

func (n Node) kubelet() ([]byte, error) {
	k := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + n.ContainerdSocket(),
		"address":                  n.Address.String(),
		"port":                     KubeletPort,
		"readOnlyPort":             0,
		"healthzBindAddress":       "127.0.0.1",
		"healthzPort":              KubeletHealthPort,
		"tlsCertFile":              n.Certificates.Kubelet.CertFile,
		"tlsPrivateKeyFile":        n.Certificates.Kubelet.KeyFile,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": n.PKI.Cluster.CertFile()},
		},
		"authorization":          map[string]any{"mode": "Webhook"},
		"clusterDNS":             []string{DNSIP(n.ServiceCIDR).String()},
		"clusterDomain":          Domain,
		"resolvConf":             n.ResolvConf(),
		"cgroupDriver":           n.Host.cgroupDriver(),
		"cgroupRoot":             n.Host.CgroupRoot,
		"oomScoreAdj":            n.Host.oomScoreAdj(),
		"failSwapOn":             false,
		"podLogsDir":             n.PodLogs(),
		"volumePluginDir":        n.volumePlugins(),
		"rotateCertificates":     false, // regiond renews the files; the kubelet notices
		"makeIPTablesUtilChains": false, // kube-proxy uses nftables
		// The images are embedded in regiond and in no registry: garbage-collecting them would break the
		// next pod.
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard": map[string]string{
			"memory.available":   "100Mi",
			"nodefs.available":   "2%",
			"nodefs.inodesFree":  "2%",
			"imagefs.available":  "2%",
			"imagefs.inodesFree": "2%",
		},
		"enableContentionProfiling": false,
		"enableProfilingHandler":    false,
		"nodeStatusReportFrequency": "1m",
		"nodeStatusUpdateFrequency": "10s",
		"volumeStatsAggPeriod":      "5m",
	}
	if !n.Host.CgroupV2 {
		k["failCgroupV1"] = false
	}
	if !n.Host.LowerOOMScore {
		k["maxOpenFiles"] = 20000 // raising the limit requires the same capability
	}
	return yaml.Marshal(k)
}

func (n Node) proxyFile() string { return datadir.Config.In(n.DataDir, "kube-proxy.yaml") }

// Proxy returns kube-proxy's arguments.
func (n Node) Proxy() []string { return []string{"kube-proxy", "--config=" + n.proxyFile()} }

func (n Node) proxy() ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": n.Kubeconfig("kube-proxy")},
		"mode":               "nftables",
		"clusterCIDR":        n.PodCIDR.String(),
		"hostnameOverride":   n.Name,
		"healthzBindAddress": net.JoinHostPort("127.0.0.1", strconv.Itoa(ProxyHealthPort)),
		"metricsBindAddress": net.JoinHostPort("127.0.0.1", strconv.Itoa(ProxyMetricsPort)),
		"oomScoreAdj":        n.Host.oomScoreAdj(),
		// Zero leaves the host's conntrack settings, which belong to the host's owner, unchanged.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
}

// network renders the CNI configuration: a bridge for the pods of this node. It exists before the
// first start, so that the node's network is ready without waiting for a controller to assign a
// range.
func (n Node) network() ([]byte, error) {
	everywhere := "0.0.0.0/0"
	if n.NodePodCIDR.Addr().Is6() {
		everywhere = "::/0"
	}
	return json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       Network,
		"plugins": []any{
			map[string]any{
				"type":        "bridge",
				"bridge":      Bridge(n.ID),
				"isGateway":   true,
				"hairpinMode": true, // a pod may reach itself through its Service
				"ipam": map[string]any{
					"type":    "host-local",
					"dataDir": datadir.CNI.In(n.DataDir, "ipam"),
					"ranges":  []any{[]any{map[string]any{"subnet": n.NodePodCIDR.String()}}},
					"routes":  []any{map[string]any{"dst": everywhere}},
				},
			},
			map[string]any{"type": "portmap", "backend": "nftables", "capabilities": map[string]any{"portMappings": true}},
		},
	}, "", "  ")
}

// Masquerade renders the nftables commands that let pods reach the outside with the host's address,
// and each other with their own. They use a separate table, which a reset deletes by name, rather
// than the bridge plugin's rules in a table that all CNI users of a host share.
func (n Node) Masquerade() string {
	family := "ip"
	if n.PodCIDR.Addr().Is6() {
		family = "ip6"
	}
	// add before delete, because deleting a missing table is an error.
	return fmt.Sprintf(`add table %[1]s %[2]s
delete table %[1]s %[2]s
table %[1]s %[2]s {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		%[1]s saddr %[3]s %[1]s daddr != %[3]s masquerade
	}
}
`, family, MasqueradeTable(n.ID), n.PodCIDR)
}
