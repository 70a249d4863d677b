package lldp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mdlayher/ethtool"

	"regiond.dev/regiond/machine/inventory"
)

// firmwareAgents are the drivers of network cards that answer LLDP in their firmware and keep the frames from the host, with the
// private flag that switches the agent off and its value then (Linux Documentation/networking/device_drivers/ethernet/intel,
// i40e.rst and ice.rst).
var firmwareAgents = map[string]struct {
	flag string
	off  bool
}{
	"i40e": {"disable-fw-lldp", true},
	"ice":  {"fw-lldp-agent", false},
}

// flags of a network card; *ethtool.Client has them.
type flags interface {
	PrivateFlags(ethtool.Interface) (*ethtool.PrivateFlags, error)
	SetPrivateFlags(ethtool.PrivateFlags) error
}

// DisableFirmwareAgents switches the LLDP agents in the firmware of network cards off, where they are known. The interface that
// netbooted is left out: the link goes down for a moment, and the installer speaks over it.
func DisableFirmwareAgents(nics []inventory.NIC, bootMAC string) error {
	client, err := ethtool.New()
	if err != nil {
		return fmt.Errorf("lldp agents in firmware: %w", err)
	}
	defer client.Close()
	return disableFirmwareAgents(client, nics, bootMAC)
}

func disableFirmwareAgents(client flags, nics []inventory.NIC, bootMAC string) error {
	var errs []error
	for _, nic := range nics {
		agent, known := firmwareAgents[nic.Driver]
		if !known || strings.EqualFold(nic.MACAddress, bootMAC) {
			continue
		}
		card := ethtool.Interface{Name: nic.Name}
		present, err := client.PrivateFlags(card)
		if err == nil {
			// An older driver has no such flag; one that is set already is left alone, so that the link stays up.
			if value, has := present.Flags[agent.flag]; !has || value == agent.off {
				continue
			}
			err = client.SetPrivateFlags(ethtool.PrivateFlags{Interface: card, Flags: map[string]bool{agent.flag: agent.off}})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lldp agent in the firmware of %s (%s): %w", nic.Name, nic.Driver, err))
		}
	}
	return errors.Join(errs...)
}
