// Package config says how the control plane's components are configured: pure functions from a Node to argument vectors and
// configuration files. It imports none of the components, so that its tests and its users never link Kubernetes.
package config

import (
	"fmt"
	"net/netip"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
)

// Node is a control host: everything the components' configuration depends on.
type Node struct {
	// ID of the region, see datadir.Owner.
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
	// DataDir holds everything that regiond keeps on the host.
	DataDir string
	// PayloadDir holds runc, the shim and the CNI plugins.
	PayloadDir string
	// SandboxImage is the image that holds a pod's namespaces open.
	SandboxImage string
	// PKI locates the authorities' files; Certificates those they have issued.
	PKI          *pki.PKI
	Certificates Certificates
	// Host is what was found out about the host.
	Host Host
}

// Certificates locates the issued certificates.
type Certificates struct {
	EtcdServer, EtcdPeer, EtcdClient                                   pki.Pair
	APIServer, APIServerKubelet, FrontProxy                            pki.Pair
	ControllerManager, Scheduler, Kubelet, KubeletClient, Proxy, Admin pki.Pair
}

// Host is what the components' configuration depends on and that differs between hosts.
type Host struct {
	// CgroupV2 is true when /sys/fs/cgroup is the unified hierarchy.
	CgroupV2 bool
	// Systemd is true when systemd manages the host's cgroups.
	Systemd bool
	// LowerOOMScore is true when a process may lower its OOM score: it has CAP_SYS_RESOURCE.
	LowerOOMScore bool
	// CgroupRoot is the cgroup below which pods' cgroups are made. It is / with systemd, whose slices are the host's, and the
	// cluster's own without, so that several clusters on one kernel do not take each other's pods for leftovers.
	CgroupRoot string
}

// Ports that the components listen on. All but the API server's, the registry's and the kubelet's are on the loopback address.
const (
	APIServerPort         = 6443
	RegistryPort          = 5443 // of regiond itself
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

// Network is the name of the pods' network in CNI. It is the same in all regions: host-local keeps its leases below this name.
const Network = "regiond"

// What the control plane makes on the host carries the region's ID (datadir.Owner), so that regions
// on one host never take each other's things for their own.

// Bridge is the network device that pods on the host are plugged into. An interface's name has at most 15 bytes (IFNAMSIZ).
func Bridge(id string) string { return "regiond" + id }

// MasqueradeTable is the nftables table that lets pods reach the outside with the host's address.
func MasqueradeTable(id string) string { return "regiond-" + id }

// CgroupRoot is the cgroup of all pods on a host without systemd.
func CgroupRoot(id string) string { return "/regiond-" + id }

// URL is where the API server is reached.
func (n Node) URL() string {
	return "https://" + netip.AddrPortFrom(n.Address, APIServerPort).String()
}

// EtcdURL is where etcd is reached, on this host only.
func (n Node) EtcdURL() string { return fmt.Sprintf("https://127.0.0.1:%d", EtcdClientPort) }

// ContainerdSocket is the path of containerd's socket.
func (n Node) ContainerdSocket() string { return ContainerdSocket(n.DataDir) }

// ContainerdSocket is the path of containerd's socket below a data directory. Shims carry it in their arguments.
func ContainerdSocket(dataDir string) string {
	return datadir.Containerd.In(dataDir, "containerd.sock")
}

// Kubeconfig is the path of a component's kubeconfig.
func (n Node) Kubeconfig(component string) string {
	return datadir.Config.In(n.DataDir, component+".kubeconfig")
}

// volumePlugins is the folder that the kubelet and the controller manager look for volume plugins in. There are none.
func (n Node) volumePlugins() string { return datadir.Kubelet.In(n.DataDir, "volumeplugins") }

// File is a configuration file to be written before the components start.
type File struct {
	Path    string
	Content []byte
}

// Files are all configuration files except the one with the encryption key, which is written once.
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
