package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/nodeinit"
)

// SeedRegionFile is the lab's region.yaml as the seed host sees it.
const SeedRegionFile = seedFiles + "/" + fileRegion

// Status of a lab.
type Status struct {
	Name string `json:"name"`
	// Seed and Rack are the pids of the lab's two processes, 0 when they do not run.
	Seed int `json:"seed"`
	Rack int `json:"rack"`
	// ControlPlane is Ready, NotReady, or why the API did not answer.
	ControlPlane string          `json:"controlPlane"`
	Machines     []MachineStatus `json:"machines"`
	// OpenStack is Ready, what it waits for, or empty if the lab has none.
	OpenStack string `json:"openstack,omitempty"`
}

// MachineStatus is one virtual server or namespace node.
type MachineStatus struct {
	Name string      `json:"name"`
	Kind MachineKind `json:"kind"`
	// BMC address of a virtual server.
	BMC string `json:"bmc,omitempty"`
	// ConsoleLog is a virtual server's serial console, or what a node's first process wrote.
	ConsoleLog string `json:"consoleLog"`
	// Server is the name of the objects that regiond made for it: Server and Host, or a Host only.
	Server string `json:"server,omitempty"`
	// Reached stage, the last of those reached.
	Reached Stage `json:"reached,omitempty"`
	// Ready says that the server is Ready.
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
}

// Status of the lab's processes and of what regiond says of its servers.
func (l Lab) Status(ctx context.Context) (Status, error) {
	s := Status{Name: l.Name}
	var err error
	if s.Seed, err = l.process("seed"); err != nil {
		return s, err
	}
	if s.Rack, err = l.process("hardware"); err != nil {
		return s, err
	}
	var f Facts
	c, err := l.Client()
	if err == nil {
		f, err = l.Observe(ctx, c)
	}
	switch {
	case err != nil:
		s.ControlPlane = err.Error()
	case f.ControlPlaneReady():
		s.ControlPlane = "Ready"
	default:
		s.ControlPlane = "NotReady"
	}
	for i, m := range l.Spec.Machines {
		if !m.VM() {
			s.Machines = append(s.Machines, l.nodeStatus(m.Name, f))
			continue
		}
		ms := MachineStatus{Name: m.Name, Kind: KindVM, BMC: bmcAddress(i).String(), ConsoleLog: l.file("machines/" + m.Name + "/console.log")}
		if server := f.Server(ms.BMC); server != nil {
			ms.Server = server.Name
			if r := f.Reached(server); len(r) > 0 {
				ms.Reached = r[len(r)-1]
			}
			if c := meta.FindStatusCondition(server.Status.Conditions, region.ConditionReady); c != nil {
				ms.Message = c.Reason + ": " + c.Message
			}
			ms.Ready = meta.IsStatusConditionTrue(server.Status.Conditions, region.ConditionReady)
		}
		s.Machines = append(s.Machines, ms)
	}
	if l.Spec.OpenStack != nil {
		switch c := f.cluster(); {
		case c == nil:
			s.OpenStack = "there is no OpenStackCluster " + clusterName
		case clusterReady(c):
			s.OpenStack = "Ready"
		default:
			s.OpenStack = waitsFor(c)
		}
	}
	return s, nil
}

func (l Lab) nodeStatus(name string, f Facts) MachineStatus {
	log := l.file(filepath.Join(dirLog, nodeProcess(name)+".log"))
	s := MachineStatus{Name: name, Kind: KindNamespace, ConsoleLog: log, Message: hostMessage(f.Host(name))}
	if f.Host(name) != nil {
		s.Server = name
	}
	if r := f.ReachedNode(name); len(r) > 0 {
		s.Reached, s.Ready = r[len(r)-1], len(r) == len(NodeStages)
	}
	return s
}

// index of a machine by name.
func (l Lab) index(name string) (int, error) {
	i := slices.Index(l.Machines(), name)
	if i < 0 {
		return 0, fmt.Errorf("lab %s has no machine %q: it has %s", l.Name, name, strings.Join(l.Machines(), ", "))
	}
	return i, nil
}

// Machines by name, in their order.
func (l Lab) Machines() []string {
	var names []string
	for _, m := range l.Spec.Machines {
		names = append(names, m.Name)
	}
	return names
}

// ConsoleSocket of a machine: a unix socket joined to its serial line.
func (l Lab) ConsoleSocket(name string) (string, error) {
	_, err := l.index(name)
	return filepath.Join(l.dir(), "machines", name, "console.sock"), err
}

// ExecArgs is the command line that runs a command on the seed host, where "regiond" is found as on an installed host.
func (l Lab) ExecArgs(command []string) ([]string, error) {
	args, err := l.namespaceArgs("seed")
	if err != nil {
		return nil, err
	}
	return append(append(args, "--", "env", "PATH="+seedPath), command...), nil
}

// NodeExecArgs is ExecArgs for a namespace node.
func (l Lab) NodeExecArgs(name string, command []string) ([]string, error) {
	if vm, err := l.VM(name); err != nil {
		return nil, err
	} else if vm {
		return nil, fmt.Errorf("%s is a virtual server, which takes commands from nobody: `regiond lab console %s` shows its serial line", name, name)
	}
	args, err := l.namespaceArgs(nodeProcess(name))
	if err != nil {
		return nil, err
	}
	return append(append(args, "--root", "--", "env", "PATH="+nodeinit.Path), command...), nil
}
