package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"regiond.dev/regiond/region"
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
}

// MachineStatus is one virtual server.
type MachineStatus struct {
	Name       string `json:"name"`
	BMC        string `json:"bmc"`
	ConsoleLog string `json:"consoleLog"`
	// Server is the name of the object that regiond made for it.
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
		f, err = Observe(ctx, c)
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
		ms := MachineStatus{Name: m.Name, BMC: bmcAddress(i).String(), ConsoleLog: l.file("machines/" + m.Name + "/console.log")}
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
	return s, nil
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

// ExecArgs is the command line that runs a command on the seed host. "regiond" is the program that
// runs there, wherever it lies.
func (l Lab) ExecArgs(command []string) ([]string, error) {
	args, err := l.namespaceArgs()
	if err != nil {
		return nil, err
	}
	if command[0] == "regiond" {
		// The seed host's first process is regiond, see RunInit.
		command = append([]string{"/proc/1/exe"}, command[1:]...)
	}
	return append(append(args, "--"), command...), nil
}
