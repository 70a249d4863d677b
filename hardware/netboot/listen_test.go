package netboot

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// holds starts a process that holds a port, and waits until it does.
func holds(t *testing.T, proto string, at netip.AddrPort, args ...string) int {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
	})
	waitFor(t, 5*time.Second, strings.Join(args, " "), func() bool {
		p, ok := holder(procDir, proto, at)
		return ok && p.pid == cmd.Process.Pid
	})
	return cmd.Process.Pid
}

func TestPortsInUse(t *testing.T) {
	provisioning(t)
	// As dnsmasq does it, with SO_REUSEADDR, on all interfaces.
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var optionErr error
		err := raw.Control(func(fd uintptr) { optionErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		if err != nil {
			return err
		}
		return optionErr
	}}
	for _, port := range []string{"67", "69"} {
		other, err := lc.ListenPacket(t.Context(), "udp4", "0.0.0.0:"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
	}
	httpd := holds(t, "tcp", netip.MustParseAddrPort("10.99.0.1:80"), "busybox", "httpd", "-f", "-p", "80", "-h", t.TempDir())

	f := newFixture(t)
	err := Run(t.Context(), f.config)
	if err == nil {
		t.Fatal("started in spite of other servers")
	}
	t.Log(err)
	for _, want := range []string{
		fmt.Sprintf("listen udp 0.0.0.0:67 on rnb0: address already in use by netboot.test (pid %d): stop the other DHCP server (dnsmasq,", os.Getpid()),
		fmt.Sprintf("listen udp 10.99.0.1:69: address already in use by netboot.test (pid %d): stop the other TFTP server (dnsmasq, tftpd-hpa", os.Getpid()),
		fmt.Sprintf("listen tcp 10.99.0.1:80: address already in use by busybox (pid %d): stop the other web server", httpd),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q", want)
		}
	}
}

func TestWrongPlaces(t *testing.T) {
	provisioning(t)
	f := newFixture(t)
	f.config.Address = netip.MustParseAddr("10.99.0.77")
	if err := Run(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "10.99.0.77 is not an address of this host: add it to rnb0") {
		t.Error(err)
	}
	f.config.Address, f.config.Interface = seed, "nope0"
	if err := Run(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), `provisioning interface "nope0"`) {
		t.Error(err)
	}
}
