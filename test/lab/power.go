package lab

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/ipmi"
	"regiond.dev/regiond/region"
)

// PowerActions that `regiond lab power` knows, by name.
var PowerActions = map[string]bmc.PowerAction{"on": bmc.On, "off": bmc.Off, "cycle": bmc.Cycle, "shutdown": bmc.SoftOff}

// actionStatus only asks for the power state.
const actionStatus = "status"

// PowerActionNames are all that Power takes.
func PowerActionNames() []string {
	return append(slices.Sorted(maps.Keys(PowerActions)), actionStatus)
}

// CheckPower tells whether there is such a machine and such an action.
func (l Lab) CheckPower(name, action string) error {
	if !slices.Contains(PowerActionNames(), action) {
		return fmt.Errorf("power action %q: want one of %s", action, strings.Join(PowerActionNames(), ", "))
	}
	_, err := l.index(name)
	return err
}

// RunInSeedNetwork runs this program with other arguments in the seed host's network namespace.
func (l Lab) RunInSeedNetwork(ctx context.Context, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	if err := l.SeedNetwork().Do(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// Power does something to a machine's power through its BMC, as regiond does, and returns the
// state that is observed then. The caller is in the seed host's network namespace.
func (l Lab) Power(ctx context.Context, name, action string) (region.PowerState, error) {
	if err := l.CheckPower(name, action); err != nil {
		return region.PowerUnknown, err
	}
	i, err := l.index(name)
	if err != nil {
		return region.PowerUnknown, err
	}
	user, err := l.credentials()
	if err != nil {
		return region.PowerUnknown, err
	}
	d, err := ipmi.New(ipmi.Config{Target: bmc.Target{Address: bmcAddressPort(i), Username: user.Username, Password: user.Password}})
	if err != nil {
		return region.PowerUnknown, err
	}
	defer func() { _ = d.Close(ctx) }() // the BMC ends the session by itself
	if action != actionStatus {
		if err := d.SetPower(ctx, PowerActions[action]); err != nil {
			return region.PowerUnknown, err
		}
	}
	return d.Power(ctx)
}

// PowerNode does to a namespace node what Power does to a virtual server. It has no button to press: shutdown is off.
func (l Lab) PowerNode(ctx context.Context, name, action, program string) (region.PowerState, error) {
	if err := l.CheckPower(name, action); err != nil {
		return region.PowerUnknown, err
	}
	i, err := l.index(name)
	if err != nil {
		return region.PowerUnknown, err
	}
	if action != actionStatus && PowerActions[action] != bmc.On {
		if err := l.stopNode(name); err != nil {
			return region.PowerUnknown, err
		}
	}
	if a := PowerActions[action]; a == bmc.On || a == bmc.Cycle {
		if _, err := l.startNode(ctx, i, program); err != nil {
			return region.PowerUnknown, err
		}
	}
	pid, err := l.process(nodeProcess(name))
	switch {
	case err != nil:
		return region.PowerUnknown, err
	case pid == 0:
		return region.PowerOff, nil
	}
	return region.PowerOn, nil
}

// VM tells whether a machine is a virtual server.
func (l Lab) VM(name string) (bool, error) {
	i, err := l.index(name)
	if err != nil {
		return false, err
	}
	return l.Spec.Machines[i].VM(), nil
}
