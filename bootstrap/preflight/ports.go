package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// portsInUse tries to bind each required port. Binding is the only reliable test: a socket of
// libvirt's dnsmasq on 0.0.0.0:67 that is bound to another interface is not a conflict, but
// /proc/net does not show that. It then looks up the holders of ports in use.
func portsInUse(ctx context.Context, w Requirements, running *Process) ([]PortUse, error) {
	var used []PortUse
	for _, p := range w.Ports {
		err := tryBind(ctx, p)
		if err == nil {
			continue
		}
		u := PortUse{Port: p, InUse: errors.Is(err, unix.EADDRINUSE), Err: reason(err)}
		if u.InUse {
			if u.Holder, err = holderOf(p, w.DataDir, running); err != nil {
				return nil, err
			}
		}
		used = append(used, u)
	}
	return used, nil
}

func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

func tryBind(ctx context.Context, p Port) error {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		if p.Device == "" {
			return nil
		}
		var err error
		if cerr := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), p.Device) }); cerr != nil {
			return cerr
		}
		return err
	}}
	addr := netip.AddrPortFrom(p.Address, p.Number).String()
	if strings.HasPrefix(p.Network, "udp") {
		// Without SO_REUSEADDR, to detect a server that has set it.
		l, err := c.ListenPacket(ctx, p.Network, addr)
		if err != nil {
			return err
		}
		return l.Close()
	}
	l, err := c.Listen(ctx, p.Network, addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// holderOf returns the process that uses a port; nil if no visible process does (another PID
// namespace, or the kernel itself).
func holderOf(p Port, dataDir string, running *Process) (*Process, error) {
	sockets, err := listening("/proc", p)
	if err != nil {
		return nil, fmt.Errorf("look for the holder of port %d: %w", p.Number, err)
	}
	return processWith("/proc", sockets, dataDir, running)
}
