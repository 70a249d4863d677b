package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// The BMCs of the rack.

func (r *rack) at(a bmc.Target) *box {
	for _, b := range r.boxes {
		if b.address == a.Address {
			return b
		}
	}
	r.violate("BMC %s is not in the rack", a.Address)
	return r.boxes[0]
}

func (r *rack) Probe(ctx context.Context, a bmc.Target) (region.BMCStatus, region.PowerState, error) {
	p, err := r.Power(ctx, a)
	b := r.at(a)
	return region.BMCStatus{Product: "Rack", SystemUUID: b.uuid, SerialNumber: b.serial}, p, err
}

func (r *rack) Power(_ context.Context, a bmc.Target) (region.PowerState, error) {
	b := r.at(a)
	if err := b.answers(); err != nil {
		return region.PowerUnknown, err
	}
	if b.power == region.PowerOff {
		b.own, b.ordered = false, false // regiond has seen it
	}
	return b.power, nil
}

func (r *rack) SetPower(_ context.Context, a bmc.Target, state region.PowerState) error {
	b := r.at(a)
	if err := b.answers(); err != nil {
		return err
	}
	if r.killed { // regiond, just before
		b.ordered = state == region.PowerOn && b.once
		return errors.New("killed")
	}
	if r.twin[b.name] {
		r.violate("%s: power %s of a machine that two servers are", b.name, state)
	}
	if state == b.power {
		return nil
	}
	if state == region.PowerOff {
		consent := b.consent(true)
		if consent == "" {
			r.violate("%s: its power was cut without consent (it does %q, own boot %t, refused %t)", b.name, b.doing, b.own, b.refused)
		}
		r.did["cut by "+string(consent)]++
		b.cut()
		b.own = false
		return nil
	}
	if b.server().Spec.Retired {
		r.violate("%s: powered on although it is retired", b.name)
	}
	if !b.once && !b.installed() {
		r.violate("%s: a disk that regiond did not install was started", b.name)
	}
	b.own, b.reported, b.refused, b.sign = b.once, false, false, time.Time{}
	b.signs()
	b.start()
	return nil
}

func (r *rack) ShutDown(_ context.Context, a bmc.Target) error {
	b := r.at(a)
	if err := b.answers(); err != nil {
		return err
	}
	if r.killed {
		return errors.New("killed")
	}
	if b.power == region.PowerOn {
		consent := b.consent(false)
		if consent == "" {
			r.violate("%s: it was asked to shut down without consent (it does %q, own boot %t, refused %t)", b.name, b.doing, b.own, b.refused)
		}
		r.did["shutdown by "+string(consent)]++
	}
	if b.doing == "disk" && (b.foreign || b.installed()) && !b.deaf {
		b.cut()
	}
	return nil
}

func (r *rack) SetNetworkBoot(_ context.Context, a bmc.Target, _ inventory.FirmwareMode) error {
	b := r.at(a)
	if err := b.answers(); err != nil {
		return err
	}
	if b.power == region.PowerOn && !r.killed {
		r.violate("%s: the one-shot network boot was set with the machine running", b.name)
	}
	b.once = true
	return nil
}

func (r *rack) Forget(context.Context, netip.AddrPort) error { return nil }

// rackGuests are the guests on all machines.
type rackGuests struct{ r *rack }

func (g rackGuests) Vacate(_ context.Context, host string) error {
	b := g.r.named(host)
	if b.guests > 0 {
		return fmt.Errorf("%d instances are on %s", b.guests, host)
	}
	b.vacated = true
	return nil
}

func (g rackGuests) Forget(_ context.Context, host string) error {
	if b := g.r.named(host); b.power == region.PowerOn || !b.vacated {
		g.r.violate("%s: its old system was forgotten (power %s, vacated %t)", host, b.power, b.vacated)
	}
	return nil
}
