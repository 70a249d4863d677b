package namespace

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/mdlayher/ethtool"
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

// Cable is a veth pair from an interface of a namespace to a port of a bridge in another.
type Cable struct {
	// Name of the interface, and of its other end, the port. Default for the port: "to-" + Name.
	Name, Port string
	// MACAddress of the interface, default the kernel's choice.
	MACAddress string
	Addresses  []netip.Prefix
	// Checksums are computed before packets are sent, and packets are not bigger than the MTU. Without it the kernel
	// leaves both to hardware that a veth pair has not, which matters to those who read packets as they are.
	Checksums bool
}

// Connect an interface of namespace n to a bridge in other.
func (n Namespace) Connect(c Cable, other Namespace, bridge string) error {
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	port := cmp.Or(c.Port, "to-"+c.Name)
	if _, err := h.LinkByName(c.Name); err != nil {
		peer, err := netns.GetFromPath(other.Path())
		if err != nil {
			return err
		}
		defer peer.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name = c.Name
		if c.MACAddress != "" {
			if attrs.HardwareAddr, err = net.ParseMAC(c.MACAddress); err != nil {
				return err
			}
		}
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: port, PeerNamespace: netlink.NsFd(peer)}
		if err := h.LinkAdd(veth); err != nil {
			return fmt.Errorf("%s: cable %s to %s: %w", n.Name, c.Name, other.Name, err)
		}
	}
	if err := other.join(port, bridge); err != nil {
		return err
	}
	if c.Checksums {
		if err := n.offloadNothing(c.Name); err != nil {
			return err
		}
	}
	return setUp(h, c.Name, c.Addresses)
}

// offloadNothing makes the kernel do itself what it would leave to the interface's hardware when it sends.
func (n Namespace) offloadNothing(name string) error {
	err := n.Do(func() error {
		c, err := ethtool.New()
		if err != nil {
			return err
		}
		defer c.Close()
		// Segmentation depends on checksums and goes with them.
		return c.SetFeatures(ethtool.Interface{Name: name}, map[string]bool{"tx-checksum-ip-generic": false})
	})
	if err != nil {
		return fmt.Errorf("%s: %s: switch the offload of checksums off: %w", n.Name, name, err)
	}
	return nil
}

// Unplug removes an interface, and the other end of its cable with it. One that is not there is no error.
func (n Namespace) Unplug(name string) error {
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = h.LinkDel(l)
	}
	// The other end's namespace may be ending, and take the cable with it.
	if err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%s: remove %s: %w", n.Name, name, err)
	}
	return nil
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
