package netboot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/hardware/netboot/dhcp"
	"regiond.dev/regiond/hardware/netboot/httpboot"
	"regiond.dev/regiond/hardware/netboot/tftp"
)

// sockets of the three services.
type sockets struct {
	dhcp, tftp *net.UDPConn
	http       net.Listener
}

// close what the services did not close themselves.
func (s *sockets) close() {
	// Closing twice is an error that says nothing.
	if s.dhcp != nil {
		_ = s.dhcp.Close()
	}
	if s.tftp != nil {
		_ = s.tftp.Close()
	}
	if s.http != nil {
		_ = s.http.Close()
	}
}

// listen binds all sockets, or none, and reports all that fail at once. DHCP listens on every
// address of the interface, for clients without an address send to 255.255.255.255; TFTP and
// HTTP listen on the address.
func listen(ctx context.Context, ifname string, address netip.Addr) (*sockets, error) {
	s := new(sockets)
	var errs []error
	if _, err := net.InterfaceByName(ifname); err != nil {
		return nil, fmt.Errorf("provisioning interface %q: %w: name an existing interface in the region's provisioning network", ifname, err)
	}
	anyAddress := netip.AddrPortFrom(netip.IPv4Unspecified(), dhcp.ServerPort)
	conn, err := listenUDP(ctx, anyAddress, func(fd int) error {
		return errors.Join(
			option("SO_BINDTODEVICE", unix.BindToDevice(fd, ifname)),
			option("SO_BROADCAST", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)))
	})
	if err != nil {
		errs = append(errs, explain("udp", anyAddress, ifname, err, "DHCP server (dnsmasq, isc-dhcp-server, kea, libvirt's network)"))
	}
	s.dhcp = conn
	at := netip.AddrPortFrom(address, tftp.Port)
	if s.tftp, err = listenUDP(ctx, at, nil); err != nil {
		errs = append(errs, explain("udp", at, ifname, err, "TFTP server (dnsmasq, tftpd-hpa, atftpd)"))
	}
	at = netip.AddrPortFrom(address, httpboot.Port)
	if s.http, err = new(net.ListenConfig).Listen(ctx, "tcp4", at.String()); err != nil {
		errs = append(errs, explain("tcp", at, ifname, err, "web server (nginx, apache2)"))
	}
	if len(errs) > 0 {
		s.close()
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// listenUDP binds a socket for itself alone: without SO_REUSEADDR and SO_REUSEPORT, with which a
// second server on the host would go unseen and take half of the packets.
func listenUDP(ctx context.Context, at netip.AddrPort, options func(fd int) error) (*net.UDPConn, error) {
	var lc net.ListenConfig
	if options != nil {
		lc.Control = func(_, _ string, raw syscall.RawConn) error {
			var optionErr error
			if err := raw.Control(func(fd uintptr) { optionErr = options(int(fd)) }); err != nil {
				return err
			}
			return optionErr
		}
	}
	c, err := lc.ListenPacket(ctx, "udp4", at.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil // ListenPacket's documented type for udp4
}

func option(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// explained is an error in words of its own, which keeps its cause for errors.Is.
type explained struct {
	text  string
	cause error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.cause }

// explain says why a port could not be bound and what to do.
func explain(proto string, at netip.AddrPort, ifname string, err error, other string) error {
	where := "listen " + proto + " " + at.String()
	if at.Addr().IsUnspecified() {
		where += " on " + ifname
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		who := ""
		if h, ok := holder(procDir, proto, at); ok {
			who = " by " + h.name + " (pid " + strconv.Itoa(h.pid) + ")"
		}
		return explained{fmt.Sprintf("%s: address already in use%s: stop the other %s or keep it off %s", where, who, other, ifname), err}
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return explained{fmt.Sprintf("%s: %s is not an address of this host: add it to %s, or correct the region's provisioning address", where, at.Addr(), ifname), err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return explained{fmt.Sprintf("%s: not allowed: run regiond as root", where), err}
	}
	return fmt.Errorf("%s: %w", where, err)
}
