package namespace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Bridge makes a bridge in the namespace, with the given addresses, and sets it up.
func (n Namespace) Bridge(name string, addresses ...netip.Prefix) error {
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("%s: bridge %s: %w", n.Name, name, err)
	}
	return setUp(h, name, addresses)
}

// Tap makes a tap device in the namespace as a port of the bridge.
func (n Namespace) Tap(name, bridge string) error {
	// A tap device belongs to the namespace of the thread that opened /dev/net/tun. One that is
	// there may be in use by a QEMU, and then can't be opened again.
	err := n.Do(func() error {
		if _, err := netlink.LinkByName(name); err == nil {
			return nil
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR})
	})
	if err != nil {
		return fmt.Errorf("%s: tap %s: %w", n.Name, name, err)
	}
	return n.join(name, bridge)
}

func (n Namespace) join(name, bridge string) error {
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	br, err := h.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("%s: bridge %s: %w", n.Name, bridge, err)
	}
	l, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", n.Name, name, err)
	}
	if err := h.LinkSetMaster(l, br); err != nil {
		return fmt.Errorf("%s: %s into %s: %w", n.Name, name, bridge, err)
	}
	return h.LinkSetUp(l)
}

// Cable joins an interface of namespace n, with the given addresses, to a bridge in other.
func (n Namespace) Cable(name string, other Namespace, bridge string, addresses ...netip.Prefix) error {
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	if _, err := h.LinkByName(name); err != nil {
		peer, err := netns.GetFromPath(other.Path())
		if err != nil {
			return err
		}
		defer peer.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "to-" + name, PeerNamespace: netlink.NsFd(peer)}
		if err := h.LinkAdd(veth); err != nil {
			return fmt.Errorf("%s: cable %s to %s: %w", n.Name, name, other.Name, err)
		}
	}
	if err := other.join("to-"+name, bridge); err != nil {
		return err
	}
	return setUp(h, name, addresses)
}

// DefaultRoute sends what has no other route out of the named interface. Kubernetes chooses
// addresses by the default route, even where nothing lies behind it.
func (n Namespace) DefaultRoute(name string) error {
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	_, all, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	err = h.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK})
	if err != nil {
		return fmt.Errorf("%s: default route by %s: %w", n.Name, name, err)
	}
	return nil
}

func setUp(h *netlink.Handle, name string, addresses []netip.Prefix) error {
	l, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		addr, err := netlink.ParseAddr(a.String())
		if err != nil {
			return err
		}
		if err := h.AddrReplace(l, addr); err != nil {
			return fmt.Errorf("address %s on %s: %w", a, name, err)
		}
	}
	return h.LinkSetUp(l)
}
