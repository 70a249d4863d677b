package namespace

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/mdlayher/ethtool"
	"golang.org/x/sys/unix"
)

func TestNamespace(t *testing.T) {
	a := Namespace{fmt.Sprintf("rl-test-%d-a", os.Getpid())}
	b := Namespace{fmt.Sprintf("rl-test-%d-b", os.Getpid())}
	for _, n := range []Namespace{a, b} {
		t.Cleanup(func() {
			if err := n.Delete(); err != nil {
				t.Error(err)
			}
			if n.Exists() {
				t.Errorf("%s is still there", n.Name)
			}
		})
	}
	for range 2 { // everything may be said twice
		for _, n := range []Namespace{a, b} {
			if err := n.Create(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Bridge("br0", netip.MustParsePrefix("10.99.0.1/24")); err != nil {
			t.Fatal(err)
		}
		if err := b.Tap("tap0", "br0"); err != nil {
			t.Fatal(err)
		}
		c := Cable{Name: "eth0", Port: "port0", MACAddress: "02:99:00:00:00:01", Checksums: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.99.0.2/24")}}
		if err := a.Connect(c, b, "br0"); err != nil {
			t.Fatal(err)
		}
		if err := a.DefaultRoute("eth0"); err != nil {
			t.Fatal(err)
		}
	}

	// A tap that is in use stays as it is.
	var tap *os.File
	err := b.Do(func() (err error) {
		tap, err = openTap("tap0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	if err := b.Tap("tap0", "br0"); err != nil {
		t.Errorf("with the tap in use: %v", err)
	}

	var l net.Listener
	err = b.Do(func() (err error) {
		l, err = net.Listen("tcp", "10.99.0.1:80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = a.Do(func() error {
		c, err := net.Dial("tcp", "10.99.0.1:80")
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		t.Fatalf("from one namespace to the other: %v", err)
	}
	if c, err := net.Dial("tcp", "127.0.0.1:80"); err == nil {
		c.Close()
		t.Error("the listener is reachable from outside of its namespace")
	}

	l0, err := a.Links()
	if err != nil {
		t.Fatal(err)
	}
	defer l0.Close()
	if eth0, err := l0.LinkByName("eth0"); err != nil || eth0.Attrs().HardwareAddr.String() != "02:99:00:00:00:01" {
		t.Errorf("eth0: %+v, %v", eth0, err)
	}
	if on := txChecksum(t, a, "eth0"); on {
		t.Error("checksums of eth0 are left to hardware")
	}
	if on := txChecksum(t, b, "port0"); !on {
		t.Error("nobody asked for checksums at the port, or the kernel never offloads them")
	}
	for range 2 {
		if err := b.Unplug("port0"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l0.LinkByName("eth0"); err == nil {
		t.Error("eth0 outlived its cable")
	}

	var cmd *exec.Cmd
	err = a.Do(func() error {
		cmd = exec.Command("sleep", "1000")
		return cmd.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	pids, err := a.Processes()
	if err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Fatalf("processes %v, %v; want %d", pids, err, cmd.Process.Pid)
	}
	if err := a.Delete(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself, not with its namespace")
	}
}

func txChecksum(t *testing.T, n Namespace, name string) (on bool) {
	t.Helper()
	err := n.Do(func() error {
		c, err := ethtool.New()
		if err != nil {
			return err
		}
		defer c.Close()
		features, err := c.Features(ethtool.Interface{Name: name})
		for _, f := range features {
			on = on || f.Name == "tx-checksum-ip-generic" && f.Active
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return on
}

// openTap as QEMU does.
func openTap(name string) (*os.File, error) {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	return f, unix.IoctlIfreq(int(f.Fd()), unix.TUNSETIFF, req)
}
