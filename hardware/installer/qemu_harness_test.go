//go:build integration

package installer_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

func realImage(t *testing.T) *image {
	t.Helper()
	m, err := diskimage.ReadManifest(*imageDir)
	if err != nil {
		t.Fatalf("%v; build one with regiond image build, or say where it is with -image", err)
	}
	return &image{dir: *imageDir, manifest: *m}
}

// enterNamespace puts the test's thread into a network namespace of its own, with the tap, DHCP by busybox and an
// LLDP neighbour. Children and sockets made on this thread are in it; it ends with them.
func enterNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("this test makes a network namespace: run it as root: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: tapName}, Mode: netlink.TUNTAP_MODE_TAP}
	if err := netlink.LinkAdd(tap); err != nil {
		t.Fatal(err)
	}
	address, err := netlink.ParseAddr(seedIP + "/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(tap, address); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(tap); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "udhcpd.conf")
	text := fmt.Sprintf("start 10.99.77.10\nend 10.99.77.20\ninterface %s\nlease_file %s/leases\npidfile %s/pid\noption subnet 255.255.255.0\noption router %s\noption lease 600\n",
		tapName, dir, dir, seedIP)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "leases"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	startProcess(t, exec.Command("busybox", "udhcpd", "-f", config))
	announce(t)
}

// announce sends LLDP every second until the test ends.
func announce(t *testing.T) {
	t.Helper()
	iface, err := net.InterfaceByName(tapName)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := packet.Listen(iface, packet.Raw, 0x88cc, nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := []byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc}
	for _, tlv := range []struct {
		kind  int
		value string
	}{{1, "\x04\x02\x00\x00\x00\x00\x01"}, {2, "\x05swp7"}, {3, "\x00\x78"}, {5, "leaf-1"}, {0, ""}} {
		frame = append(binary.BigEndian.AppendUint16(frame, uint16(tlv.kind<<9|len(tlv.value))), tlv.value...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// Fails while no virtual machine holds the tap.
				_, _ = conn.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]})
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
		conn.Close()
	})
}

// regiondInNamespace serves on the tap's address, with a certificate for it.
func regiondInNamespace(t *testing.T, i *image) *regiond {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(seedIP)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return newRegiondAt(t, i, seedIP, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
}

// vm is a virtual server with one disk.
type vm struct {
	t               *testing.T
	firmware        inventory.FirmwareMode
	dir, disk, vars string
	initramfs       string
	// arguments of the kernel when it is booted over the network.
	arguments string
	runs      int
}

func newVM(t *testing.T, firmware inventory.FirmwareMode, ticket enroll.Ticket) *vm {
	t.Helper()
	dir := t.TempDir()
	v := &vm{t: t, firmware: firmware, dir: dir, disk: filepath.Join(dir, "disk.raw"), vars: filepath.Join(dir, "vars.fd"), initramfs: filepath.Join(dir, "initramfs")}
	if err := os.WriteFile(v.disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(v.disk, diskSize); err != nil {
		t.Fatal(err)
	}
	vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		t.Fatalf("%v; install ovmf", err)
	}
	if err := os.WriteFile(v.vars, vars, 0o600); err != nil {
		t.Fatal(err)
	}
	ticket.MACAddress = serverMAC
	// The virtual clock is wrong, too: see the arguments of QEMU.
	ticket.Time = time.Now().UTC().Format(time.RFC3339)
	v.makeInitramfs(ticket)
	return v
}

// makeInitramfs puts today's regiond-init and the ticket behind the image's initramfs: of two archives, the kernel
// takes the files of the later one.
func (v *vm) makeInitramfs(ticket enroll.Ticket) {
	v.t.Helper()
	binary := filepath.Join(v.dir, "regiond-init")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "regiond.dev/regiond/cmd/regiond-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // nothing in the initramfs could link it
	if out, err := build.CombinedOutput(); err != nil {
		v.t.Fatalf("go build: %v\n%s", err, out)
	}
	initramfs, err := os.ReadFile(filepath.Join(*imageDir, "initramfs"))
	if err != nil {
		v.t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Logf("image's initramfs %d bytes, regiond-init %d bytes", len(initramfs), len(program))
	text, err := json.Marshal(ticket)
	if err != nil {
		v.t.Fatal(err)
	}
	buffer := bytes.NewBuffer(initramfs)
	archive := cpio.NewWriter(buffer)
	for _, f := range []struct {
		name    string
		mode    cpio.FileMode
		content []byte
	}{{"init", 0o755, program}, {enroll.TicketFile[1:], 0o600, text}} {
		if err := archive.WriteHeader(&cpio.Header{Name: f.name, Mode: cpio.TypeReg | f.mode, Size: int64(len(f.content)), Links: 1}); err != nil {
			v.t.Fatal(err)
		}
		if _, err := archive.Write(f.content); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(v.initramfs, buffer.Bytes(), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// start powers the server on, from the network (as the kernel given by QEMU) or from its disk. A restart ends it.
func (v *vm) start(network bool) *process {
	v.t.Helper()
	v.runs++
	serial := filepath.Join(v.dir, fmt.Sprintf("serial-%d.log", v.runs))
	arguments := []string{
		// Which CPU, and why: emulatedCPU in test/lab/machine.
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,-cx16,-la57", "-smp", "2", "-m", "1024", "-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot",
		"-serial", "file:" + serial, "-device", "virtio-rng-pci", "-smbios", "type=1,manufacturer=LabCo,product=vServer,serial=SN-TEST",
		"-netdev", "tap,id=n0,ifname=" + tapName + ",script=no,downscript=no", "-device", "virtio-net-pci,netdev=n0,romfile=,mac=" + serverMAC,
		"-drive", "if=none,id=d0,format=raw,cache=unsafe,discard=unmap,file=" + v.disk, "-device", "virtio-blk-pci,drive=d0,serial=DISK0",
	}
	if v.firmware == inventory.FirmwareUEFI {
		arguments = append(arguments, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,format=raw,unit=1,file="+v.vars)
	}
	if network {
		// An empty CMOS battery: the clock stands in 2001.
		arguments = append(arguments, "-rtc", "base=2001-01-01", "-kernel", filepath.Join(*imageDir, "vmlinuz"), "-initrd", v.initramfs,
			"-append", strings.TrimSpace("console=ttyS0,115200 panic=10 "+v.arguments))
	}
	p := startProcess(v.t, exec.Command("qemu-system-x86_64", arguments...))
	p.serial = serial
	v.t.Cleanup(func() {
		if v.t.Failed() {
			text, err := os.ReadFile(serial)
			v.t.Logf("serial console of run (%v):\n%s", err, tail(text, 12000))
		}
	})
	return p
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	done   chan struct{}
	serial string
}

// startProcess starts a program that ends with the test at the latest.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	go func() {
		// How it ended is of no interest; tests look at what it did.
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && output.Len() > 0 {
			t.Logf("%s: %s", cmd.Path, output.String())
		}
	})
	return p
}

func (p *process) kill() {
	// It may have ended.
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) waitExit(most time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(most):
		p.t.Fatalf("the server did not restart within %s", most)
	}
}

// waitLine waits for text on the serial console.
func (p *process) waitLine(text string, most time.Duration) {
	p.t.Helper()
	waitFor(p.t, fmt.Sprintf("%q on the console", text), most, func() bool {
		b, err := os.ReadFile(p.serial)
		return err == nil && bytes.Contains(b, []byte(text))
	})
}

func waitFor(t *testing.T, what string, most time.Duration, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	end := time.After(most)
	for !ready() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %s for %s", most, what)
		}
	}
}
