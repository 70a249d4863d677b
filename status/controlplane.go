package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/region"
)

// ControlPlane is the state of the region's control plane.
type ControlPlane struct {
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	Version string `json:"version,omitempty"`
	// PID of regiond, and the time it started.
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Started: regiond finished its bootstrap and runs the controllers.
	Started bool `json:"started"`
	// Components in the order in which they start.
	Components []Component `json:"components"`
	Nodes      []Node      `json:"nodes"`
	// Certificate that expires first.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Problems that regiond keeps retrying.
	Problems []string `json:"problems,omitempty"`
}

// Component is one process of the control plane.
type Component struct {
	Name     string    `json:"name"`
	Ready    bool      `json:"ready"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Message  string    `json:"message,omitempty"`
	// Log is the path of its log file.
	Log string `json:"log"`
}

// Node is a node of Kubernetes.
type Node struct {
	Name    string    `json:"name"`
	Ready   bool      `json:"ready"`
	Since   time.Time `json:"since,omitzero"`
	Version string    `json:"version,omitempty"`
	Address string    `json:"address,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Certificate is one certificate of the control plane.
type Certificate struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
}

// backupProblems need somebody.
var backupProblems = []string{region.ReasonBackupFailed, region.ReasonBackupsNotPruned, region.ReasonBackupsBesideData}

func controlPlane(f Facts) ControlPlane {
	c := ControlPlane{Components: []Component{}, Nodes: []Node{}}
	if d := f.Daemon; d != nil {
		if len(d.Certificates) > 0 {
			first := slices.MinFunc(d.Certificates, func(a, b pki.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
			c.Certificate = &Certificate{Name: first.Name, NotAfter: first.NotAfter}
		}
		c.Version, c.PID, c.Since, c.Started, c.Problems = d.Version, d.PID, d.Started, d.Ready, slices.Clone(d.Problems)
		if d.Waiting != "" {
			c.Problems = append(c.Problems, d.Waiting)
		}
		for _, x := range d.Components {
			k := Component{Name: x.Name, Ready: x.Ready, PID: x.PID, Since: x.Since, Restarts: x.Restarts,
				Log: datadir.Log.In(f.DataDir, x.Name+".log")}
			if !x.Ready {
				k.Message = cmp.Or(x.Waiting, x.Problem, x.LastExit, "starting")
			}
			c.Components = append(c.Components, k)
		}
	}
	c.Problems = append(c.Problems, certificateProblems(f)...)
	for _, n := range f.Nodes {
		c.Nodes = append(c.Nodes, node(n))
	}
	for _, r := range f.Regions {
		if b := meta.FindStatusCondition(r.Status.Conditions, region.ConditionBackedUp); b != nil && slices.Contains(backupProblems, b.Reason) {
			c.Problems = append(c.Problems, "backup: "+b.Message)
		}
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

func (w *table) controlPlane(c ControlPlane) {
	if c.PID != 0 {
		w.row()
		w.row("COMPONENT", "READY", "PID", "SINCE", "RESTARTS", "MESSAGE")
		w.row("regiond "+c.Version, word(c.Started, "yes", "no"), strconv.Itoa(c.PID), w.age(c.Since), "", "")
		for _, k := range c.Components {
			w.row(k.Name, word(k.Ready, "yes", "no"), number(k.PID), w.age(k.Since), strconv.Itoa(k.Restarts), clip(k.Message))
		}
	}
	if len(c.Nodes) > 0 {
		w.row()
		w.row("NODE", "READY", "ADDRESS", "VERSION", "SINCE", "MESSAGE")
		for _, n := range c.Nodes {
			w.row(n.Name, word(n.Ready, "yes", "no"), dash(n.Address), dash(n.Version), w.age(n.Since), n.Message)
		}
	}
	if len(c.Problems) > 0 {
		w.row()
		w.row("PROBLEMS")
		for _, p := range c.Problems {
			w.row(p)
		}
	}
	if k := c.Certificate; k != nil {
		w.row()
		w.row("NEXT CERTIFICATE EXPIRY", "IN", "ON")
		w.row(k.Name, left(k.NotAfter, w.now), k.NotAfter.UTC().Format(time.DateOnly))
	}
}
