package lab

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

// Stage is a step on the way to a lab that is up, in the order in which they are reached.
type Stage string

// Stages of the region, then of each server.
const (
	StageControlPlane Stage = "control plane is Ready"
	StageDiscovered   Stage = "discovered through its BMC"
	StageNetboot      Stage = "netboots"
	StageInspected    Stage = "inspected"
	StageWriting      Stage = "image is being written"
	StageInstalled    Stage = "installed on its local disk"
	StageJoined       Stage = "booted from its disk, agent joined"
	StageReady        Stage = "Ready"
)

// KernelPanicked is what is reported of a server whose kernel ended, and which starts again by itself.
const KernelPanicked = "its kernel panicked"

// ServerStages in order, and those of a namespace node, which is neither found nor installed.
var (
	ServerStages = []Stage{StageDiscovered, StageNetboot, StageInspected, StageWriting, StageInstalled, StageJoined, StageReady}
	NodeStages   = ServerStages[len(ServerStages)-2:]
)

// Facts are what is observed of the region of a lab.
type Facts struct {
	Nodes    []corev1.Node
	Servers  []region.Server
	Hosts    []region.Host
	Clusters []region.OpenStackCluster
	// Started is when the regiond that runs was started, zero if it does not say.
	Started time.Time
}

// ControlPlaneReady tells whether there is a Kubernetes node and it is Ready.
func (f Facts) ControlPlaneReady() bool {
	return slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
}

// Server behind a BMC.
func (f Facts) Server(bmc string) *region.Server {
	i := slices.IndexFunc(f.Servers, func(s region.Server) bool { return s.Spec.BMC.Address == bmc })
	if i < 0 {
		return nil
	}
	return &f.Servers[i]
}

// Reached tells how far a server got: all stages up to the last one that shows. Stages that were
// passed between two observations count, too.
func (f Facts) Reached(s *region.Server) []Stage {
	if s == nil {
		return nil
	}
	is := func(t string) bool { return meta.IsStatusConditionTrue(s.Status.Conditions, t) }
	in := s.Status.Installation
	joined := slices.ContainsFunc(f.Hosts, func(h region.Host) bool {
		return h.Spec.ServerUID == string(s.UID) && h.Status.BootID != ""
	})
	shows := map[Stage]bool{
		StageDiscovered: is(region.ConditionBMCReachable),
		StageNetboot:    s.Status.Netboot != nil && s.Status.Netboot.LastSeen != nil,
		StageInspected:  is(region.ConditionInspected),
		StageWriting:    in != nil && in.Stage == region.StageWriting,
		StageInstalled:  is(region.ConditionInstalled),
		StageJoined:     joined,
		StageReady:      is(region.ConditionReady),
	}
	for i := len(ServerStages) - 1; i >= 0; i-- {
		if shows[ServerStages[i]] {
			return ServerStages[:i+1]
		}
	}
	return nil
}

// Host by name.
func (f Facts) Host(name string) *region.Host {
	i := slices.IndexFunc(f.Hosts, func(h region.Host) bool { return h.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Hosts[i]
}

// ReachedNode is Reached of a namespace node.
func (f Facts) ReachedNode(name string) []Stage {
	h := f.Host(name)
	switch {
	case h == nil || h.Status.BootID == "":
		return nil
	case meta.IsStatusConditionTrue(h.Status.Conditions, region.ConditionHealthy):
		return NodeStages
	}
	return NodeStages[:1]
}

// Client of the lab's Kubernetes API, which is reached only from within the seed's namespace.
func (l Lab) Client() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.file(dirSeed+"/admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.Dial = l.SeedNetwork().Dial
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // the lab has no other side
	config.Timeout = 10 * time.Second
	return client.New(config, client.Options{Scheme: scheme.New()})
}

// Observe the region of the lab once.
func (l Lab) Observe(ctx context.Context, c client.Client) (Facts, error) {
	f, err := Observe(ctx, c)
	// A regiond that does not answer is not an error: it starts, and nothing that its status says is believed.
	if s, err := daemon.Fetch(ctx, daemon.SocketPath(l.file(dirSeed))); err == nil {
		f.Started = s.Started
	}
	return f, err
}

// Observe the region once, as its API tells.
func Observe(ctx context.Context, c client.Client) (Facts, error) {
	var f Facts
	var nodes corev1.NodeList
	var servers region.ServerList
	var hosts region.HostList
	var clusters region.OpenStackClusterList
	err := errors.Join(c.List(ctx, &nodes), c.List(ctx, &servers), c.List(ctx, &hosts), c.List(ctx, &clusters))
	f.Nodes, f.Servers, f.Hosts, f.Clusters = nodes.Items, servers.Items, hosts.Items, clusters.Items
	return f, err
}
