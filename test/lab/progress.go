package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
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

// ServerStages in order.
var ServerStages = []Stage{StageDiscovered, StageNetboot, StageInspected, StageWriting, StageInstalled, StageJoined, StageReady}

// Facts are what is observed of the region of a lab.
type Facts struct {
	Nodes   []corev1.Node
	Servers []region.Server
	Hosts   []region.Host
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

// Client of the lab's Kubernetes API, which is reached only from within the seed's namespace.
func (l Lab) Client() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.file(dirSeed+"/admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	ns := l.seed()
	config.Dial = func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = ns.Do(func() error {
			c, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	config.Timeout = 10 * time.Second
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// Observe the region once.
func Observe(ctx context.Context, c client.Client) (Facts, error) {
	var f Facts
	var nodes corev1.NodeList
	var servers region.ServerList
	var hosts region.HostList
	err := errors.Join(c.List(ctx, &nodes), c.List(ctx, &servers), c.List(ctx, &hosts))
	f.Nodes, f.Servers, f.Hosts = nodes.Items, servers.Items, hosts.Items
	return f, err
}

// Wait until every server of the lab is Ready, and report each stage once as it is reached.
// When ctx ends first the error says where each part stands and where to look.
func (l Lab) Wait(ctx context.Context, report func(format string, args ...any)) error {
	w := waiter{lab: l, report: report, seen: map[string]int{}, percent: map[string]int64{}}
	var c client.Client
	var f Facts
	var err error
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if c == nil {
			c, err = l.Client() // fails until regiond has written the kubeconfig
		}
		if c != nil {
			var seen Facts
			if seen, err = Observe(ctx, c); err == nil || len(seen.Nodes) > 0 {
				f = seen
			}
		}
		if w.next(f) {
			return nil
		}
		if pid, e := l.process("seed"); e == nil && pid == 0 {
			return fmt.Errorf("the seed host ended, see %s", l.file(dirLog+"/seed.log"))
		}
		select {
		case <-ctx.Done():
			return w.stuck(f, err)
		case <-tick.C:
		}
	}
}

// waiter remembers what was reported.
type waiter struct {
	lab     Lab
	report  func(string, ...any)
	control bool
	seen    map[string]int   // machine: how many stages
	percent map[string]int64 // machine: last reported progress of writing, in tenths
}

func (w *waiter) next(f Facts) (done bool) {
	if !w.control && f.ControlPlaneReady() {
		w.control = true
		w.report("%s (Kubernetes %s)", StageControlPlane, f.Nodes[0].Status.NodeInfo.KubeletVersion)
	}
	done = w.control
	for i, m := range w.lab.Spec.Machines {
		s := f.Server(bmcAddress(i).String())
		reached := f.Reached(s)
		if w.seen[m.Name] == 0 && len(reached) == len(ServerStages) {
			w.seen[m.Name] = len(reached) - 1 // it was brought up before: nothing of that is news
		}
		for _, stage := range reached[min(w.seen[m.Name], len(reached)):] {
			w.report("%s (%s): %s%s", m.Name, s.Name, stage, detail(stage, s, f))
		}
		w.seen[m.Name] = max(w.seen[m.Name], len(reached))
		if len(reached) == 4 { // writing
			in := s.Status.Installation
			if p := 10 * in.BytesWritten / max(in.BytesTotal, 1); p > w.percent[m.Name] {
				w.percent[m.Name] = p
				w.report("%s (%s): %d %% of %d MiB", m.Name, s.Name, 10*p, in.BytesTotal>>20)
			}
		}
		done = done && len(reached) == len(ServerStages)
	}
	return done
}

// detail is what is worth knowing of a stage.
func detail(stage Stage, s *region.Server, f Facts) string {
	switch {
	case stage == StageDiscovered && s.Status.BMC != nil:
		return fmt.Sprintf(": %s %s, serial %s", s.Status.BMC.Manufacturer, s.Status.BMC.Product, s.Status.BMC.SerialNumber)
	case stage == StageNetboot && s.Status.Netboot != nil:
		return fmt.Sprintf(": %s has %s", s.Status.Netboot.MACAddress, s.Status.Netboot.Address)
	case stage == StageInspected && s.Status.Inventory != nil:
		i := s.Status.Inventory
		return fmt.Sprintf(": %d CPUs, %d MiB, %d disk(s), %d NIC(s), %s", i.CPU.Threads, i.MemoryBytes>>20, len(i.Disks), len(i.NICs), i.Firmware)
	case stage == StageInstalled && s.Status.Installation != nil:
		return ": " + s.Status.Installation.Image
	case stage == StageJoined:
		for _, h := range f.Hosts {
			if h.Spec.ServerUID == string(s.UID) {
				return fmt.Sprintf(": %s, image %s", h.Status.Kernel, h.Status.Image)
			}
		}
	}
	return ""
}

// stuck says where everything stands.
func (w *waiter) stuck(f Facts, cause error) error {
	var errs []error
	if !w.control {
		errs = append(errs, fmt.Errorf("the control plane is not Ready (last answer: %v): see %s and %s", cause, w.lab.file(dirLog+"/seed.log"), w.lab.file(dirSeed+"/log")))
	}
	for i, m := range w.lab.Spec.Machines {
		s := f.Server(bmcAddress(i).String())
		if n := w.seen[m.Name]; n < len(ServerStages) {
			at := "nothing was seen of it"
			if n > 0 {
				at = fmt.Sprintf("last seen: %s", ServerStages[n-1])
			}
			why := "no Server object"
			if s != nil {
				if c := meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady); c != nil {
					why = fmt.Sprintf("%s: %s", c.Reason, c.Message)
				}
			}
			errs = append(errs, fmt.Errorf("%s is not Ready: %s; %s; its console: %s", m.Name, at, why, w.lab.file("machines/"+m.Name+"/console.log")))
		}
	}
	return errors.Join(errs...)
}
