package namespace

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

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
		if err := a.Cable("eth0", b, "br0", netip.MustParsePrefix("10.99.0.2/24")); err != nil {
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
