package hardware

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/ipmi"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// driver is what a BMC of any protocol does. All its methods MAY be called again after any error.
type driver interface {
	bmc.Session
	Probe(ctx context.Context) (bmc.Info, error)
	Power(ctx context.Context) (region.PowerState, error)
	SetPower(ctx context.Context, action bmc.PowerAction) error
	ShutDown(ctx context.Context) error
	SetNetworkBoot(ctx context.Context, mode inventory.FirmwareMode) error
}

// bmcs gives the controllers what they need of BMCs: one session per BMC, whoever asks.
type bmcs struct {
	pool *bmc.Pool[driver]
}

func newBMCs(log *slog.Logger, registry prometheus.Registerer) (*bmcs, error) {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{Name: "regiond_ipmi_drops_total", Help: "Datagrams of BMCs that did not answer what was asked: malformed, forged, replayed or late."})
	if err := registry.Register(dropped); err != nil {
		return nil, err
	}
	return &bmcs{bmc.NewPool(func(t bmc.Target) (driver, error) {
		switch t.Protocol {
		case region.ProtocolIPMI, "":
			return ipmi.New(ipmi.Config{Target: t, Dropped: dropped.Inc, Log: log})
		}
		return nil, &bmc.Error{Policy: bmc.Terminal, Reason: region.ReasonUnsupportedByBMC, Address: t.Address, Operation: "choose a driver",
			Detail: fmt.Sprintf("regiond does not speak the protocol %q", t.Protocol), Advice: "correct bmc.protocol of the server"}
	})}, nil
}

func (b *bmcs) Probe(ctx context.Context, t bmc.Target) (region.BMCStatus, region.PowerState, error) {
	s, err := b.pool.Get(ctx, t)
	if err != nil {
		return region.BMCStatus{}, region.PowerUnknown, err
	}
	info, err := s.Probe(ctx)
	if err != nil {
		return region.BMCStatus{}, region.PowerUnknown, err
	}
	power, err := s.Power(ctx)
	if err != nil {
		return region.BMCStatus{}, region.PowerUnknown, err
	}
	return region.BMCStatus{
		Manufacturer: info.Manufacturer, Product: info.Product, SerialNumber: info.SerialNumber,
		SystemUUID: info.SystemUUID, FirmwareVersion: info.FirmwareVersion,
	}, power, nil
}

// Identify asks a BMC only who it is.
func (b *bmcs) Identify(ctx context.Context, t bmc.Target) (region.BMCStatus, error) {
	said, _, err := b.Probe(ctx, t)
	return said, err
}

func (b *bmcs) Power(ctx context.Context, t bmc.Target) (region.PowerState, error) {
	s, err := b.pool.Get(ctx, t)
	if err != nil {
		return region.PowerUnknown, err
	}
	power, err := s.Power(ctx)
	return power, err
}

func (b *bmcs) SetPower(ctx context.Context, t bmc.Target, state region.PowerState) error {
	s, err := b.pool.Get(ctx, t)
	if err != nil {
		return err
	}
	action := bmc.On
	if state == region.PowerOff {
		action = bmc.Off
	}
	return s.SetPower(ctx, action)
}

func (b *bmcs) ShutDown(ctx context.Context, t bmc.Target) error {
	s, err := b.pool.Get(ctx, t)
	if err != nil {
		return err
	}
	return s.ShutDown(ctx)
}

func (b *bmcs) SetNetworkBoot(ctx context.Context, t bmc.Target, mode inventory.FirmwareMode) error {
	s, err := b.pool.Get(ctx, t)
	if err != nil {
		return err
	}
	return s.SetNetworkBoot(ctx, mode)
}

func (b *bmcs) Forget(ctx context.Context, address netip.AddrPort) error {
	return b.pool.Forget(ctx, address)
}

// scan returns the addresses where a BMC answers.
func scan(ctx context.Context, addresses []netip.AddrPort) ([]netip.AddrPort, error) {
	present, err := bmc.Scan(ctx, addresses, bmc.ScanConfig{})
	if err != nil {
		return nil, err
	}
	var found []netip.AddrPort
	for _, p := range present {
		found = append(found, p.Address)
	}
	return found, nil
}
