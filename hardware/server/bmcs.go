package server

import (
	"context"
	"net/netip"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// BMCs is what the controller needs of baseboard management controllers. The implementation
// keeps one session per BMC and sends its commands one after the other. Errors MAY be a *bmc.Error, whose
// policy and reason decide what comes next.
type BMCs interface {
	// Probe asks a BMC who it is, and for the power state.
	Probe(ctx context.Context, a bmc.Target) (region.BMCStatus, region.PowerState, error)
	// Power asks for the power state only.
	Power(ctx context.Context, a bmc.Target) (region.PowerState, error)
	// SetPower forces the machine on or off. It MUST NOT return nil before the state was observed, and
	// MAY be called again.
	SetPower(ctx context.Context, a bmc.Target, state region.PowerState) error
	// ShutDown asks the machine's operating system to shut down and returns at once. It MUST NOT cut the power, and MAY be called
	// again.
	ShutDown(ctx context.Context, a bmc.Target) error
	// SetNetworkBoot makes the next boot, and only that, a network boot in the given firmware mode. It
	// MUST read back that it is set. The machine MUST be off. It MAY be called again.
	SetNetworkBoot(ctx context.Context, a bmc.Target, mode inventory.FirmwareMode) error
	// Forget ends the session with a BMC, and what is remembered of it, such as refused credentials. It
	// MAY be called for a BMC that was never spoken to.
	Forget(ctx context.Context, address netip.AddrPort) error
}

// Guests is what the controller asks about the guests on a host before it ends the host's system.
type Guests interface {
	// Vacate MUST return nil only if it was shown that no guest is on the host, and that none can come to it from now on. Otherwise
	// the error says what is there and what to do. It MAY be called again at any time.
	Vacate(ctx context.Context, host string) error
	// Forget removes what is kept elsewhere of the host's old system. It is called while the machine is off, before another
	// system is installed, and MAY be called again.
	Forget(ctx context.Context, host string) error
}

// NoGuests is for regions in which nothing runs on hosts.
type NoGuests struct{}

// Vacate implements Guests.
func (NoGuests) Vacate(context.Context, string) error { return nil }

// Forget implements Guests.
func (NoGuests) Forget(context.Context, string) error { return nil }
