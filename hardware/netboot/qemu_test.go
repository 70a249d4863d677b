//go:build integration

package netboot

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"

	"regiond.dev/regiond/machine/inventory"
)

// These tests boot real firmware, SeaBIOS and OVMF, and the iPXE that regiond serves, in QEMU
// without KVM, up to a Linux kernel or the local disk.

// bootTime is generous: an emulated machine needs 30 to 60 s, and the host may be busy.
const bootTime = 5 * time.Minute

const machineMAC = "52:54:00:99:01:01"

const machineUUID = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab"

// machine is a virtual one on the provisioning network.
type machine struct {
	t      *testing.T
	serial string
	done   chan error
}

// startMachine boots one; only one at a time runs on this host.
func startMachine(t *testing.T, args ...string) *machine {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "qemu.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	run(t, "ip", "tuntap", "add", "rnbtap", "mode", "tap")
	t.Cleanup(func() { run(t, "ip", "link", "del", "rnbtap") })
	run(t, "ip", "link", "set", "rnbtap", "master", bridge, "up")
	m := &machine{t: t, serial: filepath.Join(t.TempDir(), "serial"), done: make(chan error, 1)}
	cmd := exec.Command("qemu-system-x86_64", append([]string{
		// Which CPU, and why: emulatedCPU in test/lab/machine.
		"-machine", "q35,graphics=off", "-accel", "tcg", "-cpu", "max,-cx16,-la57", "-m", "512", "-uuid", machineUUID,
		"-smbios", "type=1,serial=SN 42&mac=1", // tries to end its place in the query
		"-display", "none", "-no-reboot", "-serial", "file:" + m.serial, "-monitor", "none",
		"-device", "virtio-rng-pci",
		"-netdev", "tap,id=n,ifname=rnbtap,script=no,downscript=no",
	}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = errors.Join(err, errors.New(out.String()))
		}
		m.done <- err
		close(ended)
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-ended
		if t.Failed() {
			t.Logf("console:\n%s", m.console())
		}
	})
	return m
}

func (m *machine) console() string {
	b, err := os.ReadFile(m.serial)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// waitConsole waits for a text on the serial console.
func (m *machine) waitConsole(text string) {
	m.t.Helper()
	waitFor(m.t, bootTime, "on the console: "+text, func() bool {
		select {
		case err := <-m.done:
			if !strings.Contains(m.console(), text) {
				m.t.Fatalf("QEMU ended: %v", err)
			}
		default:
		}
		return strings.Contains(m.console(), text)
	})
}

// biosArgs boot as a PXE ROM for BIOS does. QEMU's ROMs are iPXE, which would be recognised and
// not be given undionly.kpxe; so iPXE plays such a ROM, by hiding its user class.
func biosArgs(t *testing.T) []string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "rom.ipxe")
	if err := os.WriteFile(script, []byte("#!ipxe\nset user-class rom\nautoboot\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{
		"-device", "virtio-net-pci,netdev=n,romfile=,mac=" + machineMAC,
		"-kernel", ipxeFile(t, "ipxe.lkrn"), "-initrd", script,
	}
}

// uefiArgs boot OVMF; without an option ROM it uses its own PXE stack.
func uefiArgs(t *testing.T) []string {
	t.Helper()
	vars := filepath.Join(t.TempDir(), "vars.fd")
	run(t, "cp", "/usr/share/OVMF/OVMF_VARS_4M.fd", vars)
	return []string{
		"-drive", "if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
		"-drive", "if=pflash,format=raw,file=" + vars,
		"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n",
		"-device", "virtio-net-pci,netdev=n,romfile=,bootindex=1,mac=" + machineMAC,
	}
}

func ipxeFile(t *testing.T, name string) string {
	t.Helper()
	root, err := unpacked("ipxe")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "usr/lib/ipxe", name)
}

// realFiles replaces the fixture's files by those of Debian, and an initramfs of the test's own.
func realFiles(t *testing.T, f *fixture) {
	t.Helper()
	root, err := unpacked(kernelPackage)
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		t.Fatal(kernels, err)
	}
	initramfs := buildInitramfs(t)
	f.config.Kernel = func() (string, error) { return kernels[0], nil }
	f.config.Initramfs = func() (string, error) { return initramfs, nil }
	f.config.LoaderDir = filepath.Dir(ipxeFile(t, "snponly.efi"))
}

func buildInitramfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "go", "build", "-ldflags=-s -w", "-o", dir+"/init", "./testdata/init")
	program, err := os.ReadFile(dir + "/init")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := cpio.NewWriter(z)
	// /etc is in the real initramfs too: the ticket must survive it.
	for _, h := range []*cpio.Header{
		{Name: "etc", Mode: cpio.TypeDir | 0o755, Links: 2},
		{Name: "init", Mode: cpio.TypeReg | 0o755, Size: int64(len(program))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(w, bytes.NewReader(program)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{w, z} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "initramfs")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantInOrder checks that the log has the texts in this order.
func wantInOrder(t *testing.T, log string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		i := strings.Index(log, text)
		if i < 0 {
			t.Errorf("the log lacks %q after what came before it", text)
			return
		}
		log = log[i+len(text):]
	}
}

func testInstallerBoots(t *testing.T, args func(*testing.T) []string, loader string, firmware inventory.FirmwareMode) {
	provisioning(t)
	f := newFixture(t)
	realFiles(t, f)
	f.decider.job = testJob()
	// The first try to fetch the initramfs fails: the machine asks again and gets a new ticket.
	find, tries := f.config.Initramfs, new(atomic.Int32)
	f.config.Initramfs = func() (string, error) {
		if tries.Add(1) == 1 {
			return "", errors.New("not there yet")
		}
		return find()
	}
	f.start(t)
	m := startMachine(t, args(t)...)
	m.waitConsole("TEST-DONE")

	console := m.console()
	for _, want := range []string{`"token":"secret"`, "TEST-MODE -rw-------", "initrd=initrd.magic console=ttyS0,115200 panic=-1"} {
		if !strings.Contains(console, want) {
			t.Errorf("console lacks %q", want)
		}
	}
	wantInOrder(t, f.log.String(), "DHCP OFFER", "file="+loader, "DHCP ACK", "TFTP: sent",
		"file=http://10.99.0.1/boot.ipxe", "route=/boot.ipxe", "job: told to run the installer", "route=/netboot/vmlinuz code=200",
		"route=/netboot/ticket code=200", "route=/netboot/initramfs code=503",
		"job: told to run the installer", "route=/netboot/vmlinuz code=200", "route=/netboot/ticket code=200", "route=/netboot/initramfs code=200")
	for _, c := range f.decider.questions() {
		if c.MAC.String() != machineMAC || c.UUID != machineUUID || c.Serial != "SN 42&mac=1" || c.Firmware != firmware ||
			!netip.MustParsePrefix("10.99.0.96/27").Contains(c.Address) {
			t.Errorf("the decider was asked about %+v", c)
		}
	}
	if n := f.counter(t, "regiond_tftp_transfers_total", "result=failed"); n != 0 {
		t.Errorf("%v failed TFTP transfers", n)
	}
	if n := f.counter(t, "regiond_dhcp_leases"); n != 1 {
		t.Errorf("%v leases, the machine should hold one through all its boot stages", n)
	}
}

func TestInstallerBootsFromBIOS(t *testing.T) {
	testInstallerBoots(t, biosArgs, "undionly.kpxe", inventory.FirmwareBIOS)
}

func TestInstallerBootsFromUEFI(t *testing.T) {
	testInstallerBoots(t, uefiArgs, "snponly.efi", inventory.FirmwareUEFI)
}

// biosDisk is a boot sector that writes DISKBOOT to the serial port.
func biosDisk(t *testing.T) string {
	t.Helper()
	sector := make([]byte, 1<<20)
	n := copy(sector, []byte{
		0xfa, 0xfc, // cli; cld
		0x31, 0xc0, 0x8e, 0xd8, // xor ax,ax; mov ds,ax
		0xbe, 0x17, 0x7c, // mov si, text
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8, // lodsb; test al,al; jz +3; out dx,al; jmp -8
		0xf4, 0xeb, 0xfd, // hlt; jmp -3
	})
	copy(sector[n:], "\r\nDISKBOOT\r\n\x00")
	sector[510], sector[511] = 0x55, 0xaa
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, sector, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// uefiDisk is a FAT disk whose boot program, iPXE with a script, writes DISKBOOT.
func uefiDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	disk, script := filepath.Join(dir, "disk"), filepath.Join(dir, "autoexec.ipxe")
	if err := os.WriteFile(script, []byte("#!ipxe\necho DISKBOOT\npoweroff\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "truncate", "-s", "64M", disk)
	run(t, "mformat", "-i", disk, "-F", "::")
	run(t, "mmd", "-i", disk, "::EFI", "::EFI/BOOT")
	run(t, "mcopy", "-i", disk, ipxeFile(t, "ipxe-amd64.efi"), "::EFI/BOOT/BOOTX64.EFI")
	run(t, "mcopy", "-i", disk, script, "::EFI/BOOT/autoexec.ipxe")
	return disk
}

// testDiskBoots checks that a machine without a job boots its disk.
func testDiskBoots(t *testing.T, args []string, loader string) {
	provisioning(t)
	f := newFixture(t)
	realFiles(t, f)
	f.start(t)
	m := startMachine(t, args...)
	m.waitConsole("DISKBOOT")
	wantInOrder(t, f.log.String(), "file="+loader, "TFTP: sent", "route=/boot.ipxe", "no job: told to boot the disk")
	if n := f.counter(t, "regiond_netboot_http_requests_total", "route=/netboot/vmlinuz"); n != 0 {
		t.Errorf("the kernel was fetched %v times without a job", n)
	}
}

func TestDiskBootsFromBIOS(t *testing.T) {
	testDiskBoots(t, append(biosArgs(t), "-drive", "if=virtio,format=raw,file="+biosDisk(t)), "undionly.kpxe")
}

func TestDiskBootsFromUEFI(t *testing.T) {
	testDiskBoots(t, append(uefiArgs(t), "-drive", "if=none,id=d,format=raw,file="+uefiDisk(t), "-device", "virtio-blk-pci,drive=d,bootindex=2"), "snponly.efi")
}
