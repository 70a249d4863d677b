package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// Wait until every machine of the lab is Ready, and its OpenStack if it has one, and report each stage once as it is reached.
// Namespace nodes are started as soon as the control plane can enrol them. When ctx ends first the error says where each part
// stands and where to look.
func (l Lab) Wait(ctx context.Context, config UpConfig) error {
	w := newWaiter(l, config.Report)
	nodes := !l.Spec.HasNamespaces() // whether they were started
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
			if seen, err = l.Observe(ctx, c); err == nil || len(seen.Nodes) > 0 {
				f = seen
			}
		}
		if w.next(f) {
			return nil
		}
		if w.control && !nodes {
			nodes = true
			if err := l.StartNodes(ctx, config); err != nil {
				return err
			}
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
	cluster clusterWaiter
	seen    map[string]int   // machine: how many stages
	percent map[string]int64 // machine: last reported progress of writing, in tenths
	console map[string]int64 // machine: how much of its console's log was read
}

func newWaiter(l Lab, report func(string, ...any)) *waiter {
	return &waiter{lab: l, report: report, seen: map[string]int{}, percent: map[string]int64{}, console: map[string]int64{}}
}

func (w *waiter) next(f Facts) (done bool) {
	if !w.control && f.ControlPlaneReady() {
		w.control = true
		w.report("%s (Kubernetes %s)", StageControlPlane, f.Nodes[0].Status.NodeInfo.KubeletVersion)
	}
	done = w.control
	for i, m := range w.lab.Spec.Machines {
		if !m.VM() {
			done = w.node(m.Name, f) && done
			continue
		}
		s := f.Server(bmcAddress(i).String())
		w.panics(m.Name)
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
	if w.lab.Spec.OpenStack != nil {
		done = w.cluster.next(f.cluster(), w.report) && done
	}
	return done
}

// panics reports kernels that ended. A host that starts again by itself looks as if it were only slow.
func (w *waiter) panics(machine string) {
	log := w.lab.file("machines/" + machine + "/console.log")
	lines, next, err := panics(log, w.console[machine])
	if err != nil {
		return // its console is named in the error at the end
	}
	w.console[machine] = next
	for _, line := range lines {
		w.report("%s: %s: %s; see %s", machine, KernelPanicked, line, log)
	}
}

// node is next for a namespace node.
func (w *waiter) node(name string, f Facts) (ready bool) {
	reached := f.ReachedNode(name)
	for _, stage := range reached[min(w.seen[name], len(reached)):] {
		if stage == StageJoined {
			w.report("%s: agent joined, image %s", name, f.Host(name).Status.Image)
		} else {
			w.report("%s: %s", name, stage)
		}
	}
	w.seen[name] = max(w.seen[name], len(reached))
	return len(reached) == len(NodeStages)
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
		if !m.VM() {
			if len(f.ReachedNode(m.Name)) < len(NodeStages) {
				errs = append(errs, fmt.Errorf("%s is not Ready: %s; its logs: %s and %s", m.Name, hostMessage(f.Host(m.Name)),
					w.lab.file(filepath.Join(dirLog, nodeProcess(m.Name)+".log")), w.lab.nodeLogs(m.Name)))
			}
			continue
		}
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
	if w.lab.Spec.OpenStack != nil {
		errs = append(errs, clusterProblem(f.cluster()))
	}
	return errors.Join(errs...)
}

func hostMessage(h *region.Host) string {
	if h == nil {
		return "no Host object"
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, region.ConditionHealthy); c != nil {
		return c.Reason + ": " + c.Message
	}
	return "its agent has not reported yet"
}
