// Package link brings the installer's network up: all interfaces, and an address by DHCP on the one that
// netbooted.
package link

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// lookEvery is how often the kernel is asked whether something has appeared.
const lookEvery = 100 * time.Millisecond

// Up sets all links up, which starts their negotiation and lets LLDP be heard, and waits until the interface
// with that MAC address is there and has a carrier. Drivers take seconds to appear, and switches may
// block a new link for half a minute (spanning tree): what is missing is logged once every 10 s.
func Up(ctx context.Context, mac net.HardwareAddr, log *slog.Logger) (netlink.Link, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var complained time.Time
	began := time.Now()
	for {
		links, err := netlink.LinkList()
		if err != nil {
			return nil, fmt.Errorf("list network interfaces: %w", err)
		}
		for _, l := range links {
			if l.Attrs().Flags&net.FlagUp == 0 && physical(l) {
				if err := netlink.LinkSetUp(l); err != nil {
					log.Warn("interface does not come up", slog.String("interface", l.Attrs().Name), slog.Any("error", err))
				}
			}
		}
		missing := fmt.Sprintf("interface with MAC address %s (there are: %s)", mac, names(links))
		if l := byMAC(links, mac); l != nil {
			if l.Attrs().RawFlags&lowerUp != 0 {
				return l, nil
			}
			missing = "carrier on " + l.Attrs().Name
		}
		if now := time.Now(); now.Sub(complained) > 10*time.Second {
			if !complained.IsZero() {
				log.Warn("waiting for the network", slog.String("for", missing), slog.Duration("since", now.Sub(began).Round(time.Second)))
			}
			complained = now
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waited for %s: %w", missing, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// lowerUp is IFF_LOWER_UP: the driver sees a carrier.
const lowerUp = 1 << 16

// physical leaves out tunnels and the like, which the kernel makes by itself.
func physical(l netlink.Link) bool {
	return l.Type() == "device" || l.Attrs().Flags&net.FlagLoopback != 0
}

// byMAC prefers the address in the ROM to the present one.
func byMAC(links []netlink.Link, mac net.HardwareAddr) netlink.Link {
	for _, l := range links {
		if l.Attrs().PermHWAddr.String() == mac.String() {
			return l
		}
	}
	for _, l := range links {
		if l.Attrs().HardwareAddr.String() == mac.String() {
			return l
		}
	}
	return nil
}

func names(links []netlink.Link) string {
	var b strings.Builder
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback == 0 {
			fmt.Fprintf(&b, " %s %s", l.Attrs().Name, l.Attrs().HardwareAddr)
		}
	}
	if b.Len() == 0 {
		return "none; is the driver of the network card in the installer?"
	}
	return strings.TrimSpace(b.String())
}
