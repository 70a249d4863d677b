package dhcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"

	"regiond.dev/regiond/hardware/sightings"
)

// UDP ports of RFC 2131 section 4.1.
const (
	ServerPort = 67
	ClientPort = 68
)

// Config of the server. The zero values of Reserved, DNS, NTP, Gateway, Metrics, Prober and Now
// are usable.
type Config struct {
	// Interface that the server listens on and asks ARP on.
	Interface string
	// Address of regiond on the provisioning network: server identifier, TFTP and HTTP server.
	Address netip.Addr
	// Network that the addresses are from.
	Network netip.Prefix
	// Gateway told to clients (option 3); none when invalid.
	Gateway netip.Addr
	// DNS and NTP servers told to clients (options 6 and 42).
	DNS, NTP []netip.Addr
	// RangeFirst and RangeLast bound the addresses that are leased, both included.
	RangeFirst, RangeLast netip.Addr
	// Reserved addresses in the range are never leased. Address, Gateway, DNS and NTP are
	// reserved anyway.
	Reserved []netip.Addr
	// LeaseTime of an address, at least a minute.
	LeaseTime time.Duration

	// DB keeps the leases, in the bucket netboot-leases.
	DB *bbolt.DB
	// Prober asks whether an address is in use before it is offered for the first time.
	Prober Prober
	// Sightings note the requests; nil for none.
	Sightings *sightings.Sightings
	// Metrics to register the counters with.
	Metrics prometheus.Registerer
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
}

// validate reports everything that would make the server lease wrong addresses.
func (c Config) validate() error {
	var errs []error
	if !c.Address.Is4() || !c.Network.Contains(c.Address) {
		errs = append(errs, fmt.Errorf("address %s is not an IPv4 address in network %s", c.Address, c.Network))
	}
	for _, end := range []netip.Addr{c.RangeFirst, c.RangeLast} {
		if !end.Is4() || !c.Network.Contains(end) {
			errs = append(errs, fmt.Errorf("DHCP range %s-%s: %s is outside network %s", c.RangeFirst, c.RangeLast, end, c.Network))
		}
	}
	if c.RangeLast.Less(c.RangeFirst) {
		errs = append(errs, fmt.Errorf("DHCP range %s-%s ends before it starts", c.RangeFirst, c.RangeLast))
	}
	if c.LeaseTime < time.Minute {
		errs = append(errs, fmt.Errorf("lease time %s is shorter than a minute", c.LeaseTime))
	}
	return errors.Join(errs...)
}

// leasable says whether an address may ever be given to a client.
func (c Config) leasable(a netip.Addr) bool {
	if !a.Is4() || a.Less(c.RangeFirst) || c.RangeLast.Less(a) {
		return false
	}
	if a == c.Network.Masked().Addr() || a == broadcast(c.Network) || a == c.Address || a == c.Gateway {
		return false
	}
	for _, list := range [][]netip.Addr{c.Reserved, c.DNS, c.NTP} {
		for _, r := range list {
			if a == r {
				return false
			}
		}
	}
	return true
}

// broadcast address of a network, its last address.
func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(a)
}
