package server_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"regiond.dev/regiond/region"
)

// Operators correct the addresses of BMCs. What regiond asked of the BMC at the old address allows nothing at the new one.

// moves says whether the server may be given another machine: an installation, or one that is to be
// replaced, is that of the machine.
func (b *box) moves() bool {
	return !b.r.twin[b.name] && !b.installed() && b.server().Status.Reinstallation == nil
}

// correct gives the server the address of another machine, which is in production, and takes away the one it had.
func (r *rack) correct(b *box) {
	if !b.moves() {
		return
	}
	if b.own && b.power == region.PowerOn {
		r.did["corrected address in a network boot"]++
	}
	r.moved++
	n := r.moved
	found := &box{r: r, name: b.name, uuid: fmt.Sprintf("3333333%d-2222-4333-8444-5555555555%02d", n%10, n), serial: fmt.Sprintf("PROD7%02d", n),
		mac: net.HardwareAddr{0x52, 0x54, 0, 0, 3, byte(n)}, address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 98, 2, byte(n)}), 623), foreign: true}
	found.start()
	for i := range r.boxes {
		if r.boxes[i] == b {
			r.boxes[i] = found
		}
	}
	found.readdress()
}

// exchange gives each of two servers the other's machine, as they are.
func (r *rack) exchange(ctx context.Context) {
	a, b := r.boxes[0], r.boxes[1]
	if !a.moves() || !b.moves() {
		return
	}
	if a.own && a.power == region.PowerOn || b.own && b.power == region.PowerOn {
		r.did["exchanged addresses in a network boot"]++
	}
	a.name, b.name = b.name, a.name
	a.asked, b.asked, a.vacated, b.vacated = b.asked, a.asked, b.vacated, a.vacated
	for _, x := range []*box{a, b} {
		x.own, x.ordered, x.once = false, false, false
		if x.doing == "writing" {
			x.doing = "hung" // what its installer reports from now on is refused
		}
		x.readdress()
	}
	r.tick(ctx, 5*time.Second) // an exchange back that regiond doesn't see changes nothing
}

// readdress makes the machine that of the server of its name.
func (b *box) readdress() {
	b.r.spec(b, func(s *region.ServerSpec) {
		s.BMC.Address, s.BMC.Port = b.address.Addr().String(), int32(b.address.Port())
	})
}
