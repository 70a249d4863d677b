// Package config renders the configuration of the control plane's components: pure functions from a
// Node to argument vectors and configuration files. It imports none of the components, so that its
// tests and users never link Kubernetes.
package config

import (
	"fmt"
	"net/netip"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
)

// Node is a control host: everything the components' configuration depends on.
type Node struct {
	// ID of the region; see datadir.Owner.
	ID string
	// Name is the node's name, the host name.
	Name string
	// Address is where the API server and the kubelet listen: the host's management address.
	Address netip.Addr
	// PodCIDR is the range of all pods' addresses in the cluster.
	PodCIDR netip.Prefix
	// NodePodCIDR is the part of it for pods on this node.
	NodePodCIDR netip.Prefix
	// ServiceCIDR is the range of Services' addresses.
	ServiceCIDR netip.Prefix
	// DataDir holds all of regiond's persistent data on the host.
	DataDir string
	// PayloadDir has runc, the shim and the CNI plugins.
	PayloadDir string
	// SandboxImage is the image that holds a pod's namespaces open.
	SandboxImage string
	// PKI locates the authorities' files; Certificates those of the issued certificates.
	PKI          *pki.PKI
	Certificates Certificates
	// Host has the detected properties of the host.
	Host Host
}

// Certificates locates the issued certificates.
type Certificates struct {
	EtcdServer, EtcdPeer, EtcdClient                                   pki.Pair
	APIServer, APIServerKubelet, FrontProxy                            pki.Pair
	ControllerManager, Scheduler, Kubelet, KubeletClient, Proxy, Admin pki.Pair
}

// Host has the properties that differ between hosts and that the components' configuration depends
// on.
type Host struct {
	// CgroupV2 is true when /sys/fs/cgroup is the unified hierarchy.
	CgroupV2 bool
	// Systemd is true when systemd manages the host's cgroups.
	Systemd bool
	// LowerOOMScore is true when a process may lower its OOM score: it has CAP_SYS_RESOURCE.
	LowerOOMScore bool
	// CgroupRoot is the parent cgroup of pods' cgroups. It is / with systemd, whose slices belong to
	// the host. Without systemd it is the cluster's own, so that several clusters on one kernel do not
	// treat each other's pods as leftovers.
	CgroupRoot string
}

// Ports that the components listen on. All except for those of the API server, the registry and the
// kubelet are on the loopback address.
const (
	APIServerPort         = 6443
	RegistryPort          = 5443 // regiond's own
	EtcdClientPort        = 2379
	EtcdPeerPort          = 2380
	KubeletPort           = 10250
	KubeletHealthPort     = 10248
	ProxyMetricsPort      = 10249
	ProxyHealthPort       = 10256
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
)

// Domain is the DNS domain of the cluster's Services.
const Domain = "cluster.local"

// Network is the name of the pods' network in CNI. It is the same in all regions: host-local stores
// its leases under this name.
const Network = "regiond"

// Names of the control plane's objects on the host contain the region's ID (datadir.Owner), so that
// regions on one host never confuse each other's objects with their own.

// Bridge returns the name of the network device that pods on the host are connected to. An
// interface's name has at most 15 bytes (IFNAMSIZ).
func Bridge(id string) string { return "regiond" + id }

// MasqueradeTable returns the name of the nftables table that lets pods reach the outside with the
// host's address.
func MasqueradeTable(id string) string { return "regiond-" + id }

// CgroupRoot returns the cgroup of all pods on a host without systemd.
func CgroupRoot(id string) string { return "/regiond-" + id }

// URL returns the URL of the API server.
func (n Node) URL() string {
	return "https://" + netip.AddrPortFrom(n.Address, APIServerPort).String()
}

// EtcdURL returns the URL of etcd, which is reachable on this host only.
func (n Node) EtcdURL() string { return fmt.Sprintf("https://127.0.0.1:%d", EtcdClientPort) }

// ContainerdSocket returns the path of containerd's socket.
func (n Node) ContainerdSocket() string { return ContainerdSocket(n.DataDir) }

// ContainerdSocket returns the path of containerd's socket below a data directory. Shims' arguments
// contain it.
func ContainerdSocket(dataDir string) string {
	return datadir.Containerd.In(dataDir, "containerd.sock")
}

// Kubeconfig returns the path of a component's kubeconfig.
func (n Node) Kubeconfig(component string) string {
	return datadir.Config.In(n.DataDir, component+".kubeconfig")
}

// volumePlugins returns the folder in which the kubelet and the controller manager look for volume
// plugins. There are none.
func (n Node) volumePlugins() string { return datadir.Kubelet.In(n.DataDir, "volumeplugins") }

// File is a configuration file that is written before the components start.
type File struct {
	Path    string
	Content []byte
}

// Files returns all configuration files except for the one with the encryption key, which is
// written only once.
func (n Node) Files() ([]File, error) {
	var files []File
	for _, f := range []struct {
		path   string
		render func() ([]byte, error)
	}{
		{n.authenticationFile(), n.authentication},
		{n.kubeletFile(), n.kubelet},
		{n.proxyFile(), n.proxy},
		{n.containerdFile(), n.containerd},
		{n.registryFile(), n.registry},
		{datadir.CNI.In(n.DataDir, "10-"+Network+".conflist"), n.network},
	} {
		content, err := f.render()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", f.path, err)
		}
		files = append(files, File{Path: f.path, Content: content})
	}
	return files, nil
}
