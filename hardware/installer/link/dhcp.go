package link

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
)

// Timing of the client. A switch that blocks the port at first costs some tries.
const (
	answerWithin = 2 * time.Second
	triesAtOnce  = 4
	tryAgain     = 3 * time.Second
	// classIdentifier (option 60) tells the installer from firmware and from iPXE in the server's log.
	classIdentifier = "regiond-installer"
)

// Lease gets an address by DHCP (RFC 2131), tries until it has one or the context ends, and configures it.
// Keep has to be called to keep it.
func Lease(ctx context.Context, l netlink.Link, log *slog.Logger) (*nclient4.Lease, error) {
	for {
		lease, err := request(ctx, l)
		if err == nil {
			if err = configure(l, lease); err == nil {
				return lease, nil
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("DHCP on %s: %w", l.Attrs().Name, context.Cause(ctx))
		}
		log.Warn("no address by DHCP yet; if this goes on, make the switch port an edge port (spanning tree) or let it "+
			"forward without LACP", slog.String("interface", l.Attrs().Name), slog.Any("error", err))
		if err := sleep(ctx, tryAgain); err != nil {
			return nil, err
		}
	}
}

// Keep renews the lease until the context ends: an installer that waits for instructions may do so for days.
func Keep(ctx context.Context, l netlink.Link, lease *nclient4.Lease, log *slog.Logger) {
	for {
		// Half of the lease is T1 of RFC 2131 section 4.4.5.
		if sleep(ctx, max(lease.ACK.IPAddressLeaseTime(time.Hour)/2, 10*time.Second)) != nil {
			return
		}
		next, err := Lease(ctx, l, log)
		if err != nil {
			return
		}
		if !next.ACK.YourIPAddr.Equal(lease.ACK.YourIPAddr) {
			log.Warn("the address changed", slog.String("from", lease.ACK.YourIPAddr.String()), slog.String("to", next.ACK.YourIPAddr.String()))
			if err := netlink.AddrDel(l, address(lease)); err != nil {
				log.Warn("the old address stays", slog.Any("error", err))
			}
		}
		lease = next
	}
}

// request goes through the whole exchange, also to renew: the server gives a known MAC address the same
// address again, and the exchange needs no state.
func request(ctx context.Context, l netlink.Link) (*nclient4.Lease, error) {
	client, err := nclient4.New(l.Attrs().Name, nclient4.WithTimeout(answerWithin), nclient4.WithRetry(triesAtOnce),
		nclient4.WithHWAddr(l.Attrs().HardwareAddr))
	if err != nil {
		return nil, err
	}
	// A socket that was only used for the exchange above.
	defer client.Close()
	return client.Request(ctx, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(classIdentifier)))
}

func address(lease *nclient4.Lease) *netlink.Addr {
	mask := lease.ACK.SubnetMask()
	if mask == nil {
		mask = lease.ACK.YourIPAddr.DefaultMask()
	}
	return &netlink.Addr{IPNet: &net.IPNet{IP: lease.ACK.YourIPAddr, Mask: mask}}
}

// configure sets address and default route.
func configure(l netlink.Link, lease *nclient4.Lease) error {
	if err := netlink.AddrReplace(l, address(lease)); err != nil {
		return fmt.Errorf("set address %s on %s: %w", address(lease).IPNet, l.Attrs().Name, err)
	}
	if routers := lease.ACK.Router(); len(routers) > 0 {
		route := &netlink.Route{LinkIndex: l.Attrs().Index, Gw: routers[0]}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("set default route by %s on %s: %w", routers[0], l.Attrs().Name, err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
