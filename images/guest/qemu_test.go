//go:build integration

package guest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"regiond.dev/regiond/images/guest"
)

var imageDir = flag.String("images", "/var/cache/regiond/images", "folder of images")

const (
	hostIP  = "10.99.78.1"
	guestIP = "10.99.78.10"
	nobody  = "10.99.78.99"
	tap     = "guesttap"
	// uuid is the instance's UUID, as nova puts it into SMBIOS.
	uuid = "b2c0ab1e-0000-4000-8000-00000000cafe"
	// bootsWithin is generous: QEMU emulates, on a shared processor.
	bootsWithin = 90 * time.Second
)

// The guest gets its address, identifies itself, and answers.
func TestQEMUGuestWithoutUserData(t *testing.T) {
	image := build(t)
	enterNamespace(t)
	m := serveMetadata(t, "")
	dhcp(t, hostIP)
	c := boot(t, image, "pc")
	c.wait(guest.LineDHCP + guestIP)
	c.wait(guest.LineMetadata + uuid)
	c.wait("GUEST-USER-DATA-NONE")
	c.wait(guest.LineUp)
	if got := m.paths(); got != "/latest/meta-data/instance-id /latest/user-data" {
		t.Errorf("the guest requested %s", got)
	}
	if out, err := exec.Command("busybox", "ping", "-c", "2", "-w", "20", guestIP).CombinedOutput(); err != nil {
		t.Errorf("the guest does not answer: %v\n%s", err, out)
	}
}

// Where the router that DHCP names does not exist, as on a neutron network without a router,
// metadata comes from the DHCP server.
func TestQEMUGuestPingsWithoutRouter(t *testing.T) {
	image := build(t)
	enterNamespace(t)
	serveMetadata(t, guest.Pings(time.Second, netip.MustParseAddr(hostIP), netip.MustParseAddr(nobody)))
	dhcp(t, nobody)
	c := boot(t, image, "q35")
	c.wait(guest.LineMetadata + uuid)
	c.wait(guest.LinePing + hostIP)
	c.wait(guest.LinePingFailed + nobody)
	// It continues.
	c.wait(guest.LinePing + hostIP)
}

func build(t *testing.T) string {
	t.Helper()
	image, err := guest.Build(*imageDir)
	if err != nil {
		t.Fatal(err)
	}
	return image.Path
}

// enterNamespace puts the test's thread, and what it starts, into a network namespace with the
// guest's tap.
func enterNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("this test creates a network namespace; run it as root: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	if err := netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: tap}, Mode: netlink.TUNTAP_MODE_TAP}); err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName(tap)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{hostIP + "/24", "169.254.169.254/32"} {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
}

// start starts a process that ends with the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// dhcp serves one address and a router.
func dhcp(t *testing.T, router string) {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("start %[1]s\nend %[1]s\nmax_leases 1\ninterface %[2]s\nlease_file %[3]s/leases\npidfile %[3]s/pid\n"+
		"option subnet 255.255.255.0\noption router %[4]s\noption lease 600\n", guestIP, tap, dir, router)
	for name, content := range map[string]string{"udhcpd.conf": text, "leases": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	start(t, exec.Command("busybox", "udhcpd", "-f", filepath.Join(dir, "udhcpd.conf")))
}

// metadata is a metadata service, as an instance sees nova's.
type metadata struct {
	mutex sync.Mutex
	asked []string
}

func serveMetadata(t *testing.T, userData string) *metadata {
	t.Helper()
	m := &metadata{}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		m.asked = append(m.asked, r.URL.Path)
		switch {
		case r.URL.Path == "/latest/meta-data/instance-id":
			fmt.Fprint(w, "i-00000001")
		case r.URL.Path == "/latest/user-data" && userData != "":
			fmt.Fprint(w, userData)
		default:
			http.NotFound(w, r)
		}
	})
	listener, err := net.Listen("tcp4", "169.254.169.254:80")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		group.Wait()
	})
	return m
}

func (m *metadata) paths() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return strings.Join(m.asked, " ")
}

// console is what the guest has printed on its serial port.
type console struct {
	t       *testing.T
	mutex   sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
	seen    int
}

func (c *console) Write(p []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return c.text.Write(p)
}

// boot starts a machine as nova does for a small flavor, without a display.
func boot(t *testing.T, image, machine string) *console {
	t.Helper()
	c := &console{t: t, changed: make(chan struct{}, 1)}
	cmd := exec.Command("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
		"-machine", machine+",accel=tcg", "-cpu", "qemu64", "-m", "128", "-uuid", uuid,
		"-serial", "stdio", "-snapshot", "-drive", "file="+image+",format=raw,if=virtio",
		"-netdev", "tap,id=n0,script=no,downscript=no,ifname="+tap,
		"-device", "virtio-net-pci,netdev=n0,mac=52:54:00:99:78:01,romfile=")
	cmd.Stdout, cmd.Stderr = c, c
	start(t, cmd)
	return c
}

// wait waits for a line after those already waited for.
func (c *console) wait(line string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), bootsWithin)
	defer cancel()
	for {
		c.mutex.Lock()
		text := c.text.String()
		at := strings.Index(text[c.seen:], line)
		if at >= 0 {
			c.seen += at + len(line)
		}
		c.mutex.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("the guest did not print %q within %s; it printed:\n%s", line, bootsWithin, text)
		case <-c.changed:
		}
	}
}
