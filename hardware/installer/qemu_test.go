//go:build integration

package installer_test

import (
	"bytes"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

var imageDir = flag.String("image", "/var/cache/regiond/images/node/current", "folder of the node image to install (regiond image build)")

// The network of the test: one tap, no switch.
const (
	tapName   = "ritap0"
	seedIP    = "10.99.77.1"
	serverMAC = "52:54:00:99:77:01"
	diskSize  = 12 << 30
)

// A real kernel on virtual hardware runs regiond-init: the installation is cut off by a power failure,
// started again, survives a corrupted chunk, and the disk boots into the installed system's init.
func TestQEMU(t *testing.T) {
	for _, firmware := range []inventory.FirmwareMode{inventory.FirmwareUEFI, inventory.FirmwareBIOS} {
		t.Run(string(firmware), func(t *testing.T) { testQEMU(t, firmware) })
	}
}

func testQEMU(t *testing.T, firmware inventory.FirmwareMode) {
	enterNamespace(t)
	i := realImage(t)
	g := regiondInNamespace(t, i)
	v := newVM(t, firmware, g.ticket())
	g.instructions = []enroll.Instruction{g.installTo("DISK0", diskSize)}
	total := i.manifest.Bytes()

	began := time.Now()
	cut := v.start(true)
	waitFor(t, "a quarter of the image", 4*time.Minute, func() bool { return g.written() > total/4 })
	cut.kill()
	t.Logf("power cut after %s at %d of %d bytes", time.Since(began).Round(time.Second), g.written(), total)
	if hasFirmwareTable(t, v.disk) {
		t.Fatal("firmware would boot half an image")
	}

	g.corruptOnce(i.manifest.Partitions[2].Chunks[5].SHA256)
	began = time.Now()
	v.start(true).waitExit(6 * time.Minute)
	end := g.last("Installed")
	t.Logf("power-on to reboot after installation: %s; %d bytes, %d refetched", time.Since(began).Round(time.Second), end.BytesWritten, end.Refetched)
	if end.Refetched != 1 || end.BytesWritten != total || end.Message != "" {
		t.Errorf("last report %+v", end)
	}
	checkRealInventories(t, g, firmware)
	checkRealDisk(t, v.disk, i)

	began = time.Now()
	system := v.start(false)
	if firmware == inventory.FirmwareUEFI {
		system.waitLine(`"regiond" from HD(2,GPT,`, 2*time.Minute) // OVMF boots our entry
	}
	system.waitLine("regiond-init: msg=\"starting the installed system\"", 4*time.Minute)
	t.Logf("power-on to the installed system's init: %s", time.Since(began).Round(time.Second))
	system.waitLine("hugepages=16", time.Second) // the profile's kernel argument, in the kernel's own message
	system.waitLine("systemd[1]: ", 3*time.Minute)
	system.kill()

	// regiond says that the disk holds what is desired; the marker proves it.
	g.instructions = []enroll.Instruction{{BootDisk: true, Message: "already installed"}}
	v.start(true).waitExit(4 * time.Minute)
	m := g.inventories[len(g.inventories)-1].Inventory.Disks[0].Marker
	if m == nil || !m.Complete || m.RegionUID != "region-uid" || m.ServerUID != "server-uid" || m.Image != i.manifest.Version {
		t.Errorf("marker %+v", m)
	}

	// Installed once more, the firmware's entry points to the new partition, and there is still only one.
	g.instructions = []enroll.Instruction{g.installTo("DISK0", diskSize)}
	v.start(true).waitExit(6 * time.Minute)
	if end := g.last("Installed"); end.Message != "" {
		t.Errorf("last report %+v", end)
	}
	again := v.start(false)
	if firmware == inventory.FirmwareUEFI {
		again.waitLine(`"regiond" from HD(2,GPT,`+espGUID(t, v.disk)+",", 2*time.Minute)
	}
	again.waitLine("starting the installed system", 4*time.Minute)
	again.kill()
}

// A machine that cannot go on says why and restarts: the boot loader's counter then leads to the other slot.
func TestQEMURestarts(t *testing.T) {
	enterNamespace(t)
	g := regiondInNamespace(t, realImage(t))
	v := newVM(t, inventory.FirmwareBIOS, g.ticket())
	for arguments, want := range map[string]string{
		"regiond.mode=boot root=PARTLABEL=root-x": `no partition of that label yet`,
		"regiond.mode=nonsense":                   `want install or boot`,
	} {
		v.arguments = arguments
		p := v.start(true)
		p.waitExit(4 * time.Minute)
		p.waitLine(want, time.Second)
		p.waitLine("restarting the machine", time.Second)
	}
}

// checkRealInventories looks at what the machine said of itself, before and after the power cut.
func checkRealInventories(t *testing.T, g *regiond, firmware inventory.FirmwareMode) {
	t.Helper()
	first, last := g.inventories[0].Inventory, g.inventories[len(g.inventories)-1].Inventory
	if len(first.Disks) != 1 || len(last.Disks) != 1 || len(last.NICs) != 1 {
		t.Fatalf("inventory %+v", last)
	}
	if d := first.Disks[0]; !d.Blank || d.Marker != nil || d.SerialNumber != "DISK0" || d.Bytes != diskSize {
		t.Errorf("first inventory of the disk: %+v", d)
	}
	if m := last.Disks[0].Marker; m == nil || m.Complete || m.ServerUID != "server-uid" {
		t.Errorf("marker after the power cut: %+v", m)
	}
	nic := last.NICs[0]
	if !nic.Boot || nic.MACAddress != serverMAC || nic.Driver != "virtio_net" || !nic.LinkUp || nic.PCIAddress == "" || nic.LLDP == nil || nic.LLDP.PortID != "swp7" {
		t.Errorf("interface %+v, LLDP %+v", nic, nic.LLDP)
	}
	if last.Firmware != firmware || last.System.SerialNumber != "SN-TEST" || last.CPU.Threads != 2 || last.MemoryBytes != 1<<30 {
		t.Errorf("firmware %s, system %+v, CPU %+v, memory %d", last.Firmware, last.System, last.CPU, last.MemoryBytes)
	}
}

// checkRealDisk compares the disk with the image, chunk by chunk, apart from the file systems that were mounted.
func checkRealDisk(t *testing.T, path string, i *image) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parts, err := diskimage.Layout(&i.manifest, diskSize)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := diskimage.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	for _, p := range i.manifest.Partitions {
		if p.Label == diskimage.LabelESP || p.Label == diskimage.LabelData {
			continue
		}
		part, err := diskimage.FindPart(parts, p.Label)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Chunks {
			b, err := os.ReadFile(filepath.Join(i.dir, diskimage.ChunkDir, c.SHA256))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := decoder.Decode(c, b)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(plain))
			if _, err := f.ReadAt(got, part.Offset()+c.Offset); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("partition %s differs at %d (%v)", p.Label, c.Offset, err)
			}
		}
	}
	if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors detected") {
		t.Errorf("sfdisk --verify: %v\n%s", err, out)
	}
}

func hasFirmwareTable(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 520)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return string(b[510:]) != "\x00\x00"+strings.Repeat("\x00", 8)
}

func (g *regiond) written() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.reports) == 0 {
		return 0
	}
	return g.reports[len(g.reports)-1].BytesWritten
}

// corruptOnce flips a byte of a chunk the next time it is fetched.
func (g *regiond) corruptOnce(sum string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var once sync.Once
	g.chunkFault = func(w http.ResponseWriter, asked string, _ int) (answered bool) {
		if asked != sum {
			return false
		}
		once.Do(func() {
			b, err := os.ReadFile(filepath.Join(g.image.dir, diskimage.ChunkDir, sum))
			if err != nil {
				g.t.Error(err)
			}
			b[len(b)/2] ^= 1
			if _, err := w.Write(b); err != nil {
				g.t.Error(err)
			}
			answered = true
		})
		return answered
	}
}
