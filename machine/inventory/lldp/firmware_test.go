package lldp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/ethtool"

	"regiond.dev/regiond/machine/inventory"
)

// cards have private flags by interface name, and remember what was set.
type cards struct {
	flags map[string]map[string]bool
	set   []string
}

func (c *cards) PrivateFlags(i ethtool.Interface) (*ethtool.PrivateFlags, error) {
	if c.flags[i.Name] == nil {
		return nil, errors.New("operation not supported")
	}
	return &ethtool.PrivateFlags{Interface: i, Flags: c.flags[i.Name]}, nil
}

func (c *cards) SetPrivateFlags(p ethtool.PrivateFlags) error {
	c.set = append(c.set, fmt.Sprint(p.Interface.Name, p.Flags))
	return nil
}

// Only the agents that are known are switched off, only where they are on, and never on the interface that netbooted.
func TestFirmwareAgentsAreSwitchedOff(t *testing.T) {
	c := &cards{flags: map[string]map[string]bool{
		"i40e on": {"disable-fw-lldp": false, "legacy-rx": false}, "i40e off": {"disable-fw-lldp": true}, "i40e old": {"legacy-rx": false},
		"ice on": {"fw-lldp-agent": true}, "ice off": {"fw-lldp-agent": false}, "boot": {"fw-lldp-agent": true}, "stranger": {"fw-lldp-agent": true},
	}}
	var nics []inventory.NIC
	for name := range c.flags {
		driver, _, _ := strings.Cut(name, " ")
		nics = append(nics, inventory.NIC{Name: name, Driver: driver, MACAddress: "52:54:00:00:00:01"})
	}
	nics = append(nics, inventory.NIC{Name: "broken", Driver: "ice", MACAddress: "52:54:00:00:00:02"},
		inventory.NIC{Name: "boot", Driver: "ice", MACAddress: "52:54:00:00:00:0A"})
	err := disableFirmwareAgents(c, nics, "52:54:00:00:00:0a")
	slices.Sort(c.set)
	if want := []string{"i40e onmap[disable-fw-lldp:true]", "ice onmap[fw-lldp-agent:false]"}; !slices.Equal(c.set, want) {
		t.Errorf("set %q, want %q", c.set, want)
	}
	if err == nil || !strings.Contains(err.Error(), "broken (ice)") {
		t.Errorf("error %v, want one that names the card which refused", err)
	}
}
