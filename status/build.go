package status

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/region"
)

// Facts is what was observed of a region.
type Facts struct {
	DataDir string
	// Daemon is the snapshot of the running regiond; nil with DaemonError if it could not be queried.
	Daemon      *daemon.Snapshot
	DaemonError string
	// APIError is why the Kubernetes API could not be queried; the objects below are then empty.
	APIError string
	Nodes    []corev1.Node
	// Addons are the Deployments that regiond itself runs in Kubernetes, Pods the pods of their
	// namespace.
	Addons  []appsv1.Deployment
	Pods    []corev1.Pod
	Servers []region.Server
	Hosts   []region.Host
	// Leases of the hosts; each has the name of its host.
	Leases []coordinationv1.Lease
	// OpenStack clusters.
	OpenStack []region.OpenStackCluster
}

// Build builds the model from the facts.
func Build(f Facts) Region {
	r := Region{ControlPlane: controlPlane(f), Servers: []Server{}, Hosts: []Host{}, OpenStack: []OpenStack{}}
	if f.Daemon != nil {
		r.Region = f.Daemon.Region
	}
	heartbeats := map[string]time.Time{}
	for _, l := range f.Leases {
		if t := l.Spec.RenewTime; t != nil {
			heartbeats[l.Name] = t.Time
		}
	}
	for _, s := range f.Servers {
		r.Servers = append(r.Servers, server(s, heartbeats[s.Name]))
	}
	for _, h := range f.Hosts {
		r.Hosts = append(r.Hosts, host(h, heartbeats[h.Name]))
	}
	for _, c := range f.OpenStack {
		c := c.DeepCopy() // the caller's facts stay unchanged
		if f.Daemon != nil {
			c.Unchecked(f.Daemon.Started, f.Daemon.Started)
		}
		r.OpenStack = append(r.OpenStack, openstack(*c))
	}
	slices.SortFunc(r.OpenStack, func(a, b OpenStack) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })

	r.Message = r.ControlPlane.Message
	if r.ControlPlane.Ready {
		r.Message = cmp.Or(unreadyServers(r.Servers), unreadyOpenStack(r.OpenStack))
	}
	r.Ready = r.Message == ""
	return r
}

// unreadyServers says which servers are not ready.
func unreadyServers(servers []Server) string {
	waiting := 0
	first := ""
	for _, s := range servers {
		if !s.Ready && s.Phase != region.PhaseRetired {
			waiting++
			first = cmp.Or(first, s.Name)
		}
	}
	switch waiting {
	case 0:
		return ""
	case 1:
		return "server " + first + " is not ready"
	}
	return fmt.Sprintf("%d of %d servers are not ready, %s first", waiting, len(servers), first)
}

func controlPlane(f Facts) ControlPlane {
	c := ControlPlane{Components: []Component{}, Nodes: []Node{}}
	if d := f.Daemon; d != nil {
		if len(d.Certificates) > 0 {
			first := slices.MinFunc(d.Certificates, func(a, b pki.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
			c.Certificate = &Certificate{Name: first.Name, NotAfter: first.NotAfter}
		}
		c.Version, c.PID, c.Since, c.Started, c.Problems = d.Version, d.PID, d.Started, d.Ready, d.Problems
		for _, x := range d.Components {
			k := Component{Name: x.Name, Ready: x.Ready, PID: x.PID, Since: x.Since, Restarts: x.Restarts,
				Log: datadir.Log.In(f.DataDir, x.Name+".log")}
			if !x.Ready {
				k.Message = cmp.Or(x.Waiting, x.Problem, x.LastExit, "starting")
			}
			c.Components = append(c.Components, k)
		}
	}
	for _, n := range f.Nodes {
		c.Nodes = append(c.Nodes, node(n))
	}
	c.Message = controlPlaneMessage(f, c)
	c.Ready = c.Message == ""
	return c
}

// controlPlaneMessage names the first cause in order of dependency, so that a dead etcd is not
// reported as an unreachable API.
func controlPlaneMessage(f Facts, c ControlPlane) string {
	if f.Daemon == nil {
		return f.DaemonError
	}
	for _, k := range c.Components {
		// A component that waits for another is not the cause.
		if !k.Ready && k.Message != "" && !waits(f, k.Name) {
			return fmt.Sprintf("%s is not ready: %s; see %s", k.Name, k.Message, k.Log)
		}
	}
	switch {
	case !f.Daemon.Ready:
		return "bootstrap: " + f.Daemon.Stage
	case f.APIError != "":
		return fmt.Sprintf("the Kubernetes API does not answer: %s; see %s", f.APIError, datadir.Log.In(f.DataDir, "kube-apiserver.log"))
	case len(c.Nodes) == 0:
		return "no node has registered; see " + datadir.Log.In(f.DataDir, "kubelet.log")
	}
	for _, n := range c.Nodes {
		if !n.Ready {
			return fmt.Sprintf("node %s is not Ready: %s; see %s", n.Name, n.Message, datadir.Log.In(f.DataDir, "kubelet.log"))
		}
	}
	return addonMessage(f)
}

// addonMessage says which of regiond's own Deployments is not running and why.
func addonMessage(f Facts) string {
	for _, d := range f.Addons {
		if d.Status.AvailableReplicas == 0 {
			return fmt.Sprintf("%s is not running: %s; see regiond kubectl -n %s describe pods", d.Name, podsMessage(d, f.Pods), d.Namespace)
		}
	}
	return ""
}

// podsMessage says why no pod of a Deployment is available.
func podsMessage(d appsv1.Deployment, pods []corev1.Pod) string {
	message := "its pod has not been created yet"
	for _, p := range pods {
		if selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err != nil || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		message = "its pod is " + cmp.Or(string(p.Status.Phase), "new")
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil {
				message = strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
			}
			if end := c.LastTerminationState.Terminated; end != nil && !c.Ready {
				message += fmt.Sprintf(" (it last exited with %s, exit code %d)", cmp.Or(strings.TrimSpace(end.Message), end.Reason), end.ExitCode)
			}
		}
	}
	return message
}

func waits(f Facts, name string) bool {
	for _, x := range f.Daemon.Components {
		if x.Name == name {
			return x.Waiting != ""
		}
	}
	return false
}

func node(n corev1.Node) Node {
	out := Node{Name: n.Name, Version: n.Status.NodeInfo.KubeletVersion, Message: "the kubelet has not reported yet"}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out.Address = a.Address
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		out.Ready, out.Since, out.Message = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time, c.Message
	}
	if out.Ready {
		out.Message = ""
	}
	return out
}

func server(s region.Server, heartbeat time.Time) Server {
	out := Server{
		Name: s.Name, BMC: s.Spec.BMC.Address, Power: s.Status.Power, Phase: s.Status.Phase,
		Heartbeat: heartbeat, Reason: "New", Message: "waiting for the controller to reconcile it",
	}
	if p := s.Spec.BMC.Port; p != 0 && p != region.DefaultBMCPort {
		out.BMC = net.JoinHostPort(out.BMC, strconv.Itoa(int(p)))
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady); c != nil {
		out.Ready = c.Status == metav1.ConditionTrue
		out.Reason, out.Message, out.Since = c.Reason, c.Message, c.LastTransitionTime.Time
	}
	for _, kind := range []string{region.ConditionBMCAddress, region.ConditionMachineIdentity} {
		if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			// An operator must act on it, even while the server is in service.
			out.Message = strings.TrimPrefix(out.Message+"; "+c.Reason+": "+c.Message, "; ")
		}
	}
	return out
}

func host(h region.Host, heartbeat time.Time) Host {
	out := Host{
		Name: h.Name, Role: h.Spec.Role, Image: h.Status.Image, Slot: h.Status.Slot, Kernel: h.Status.Kernel,
		Heartbeat: heartbeat, Healthy: string(metav1.ConditionUnknown), Message: "its agent has not reported yet",
	}
	if h.Status.BootTime != nil {
		out.Booted = h.Status.BootTime.Time
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, region.ConditionHealthy); c != nil {
		out.Healthy, out.Message = string(c.Status), c.Message
	}
	return out
}
