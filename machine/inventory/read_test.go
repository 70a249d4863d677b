package inventory_test

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"regiond.dev/regiond/machine/inventory"
)

// fixture reads a machine's sysfs from a text file: "path = value", with the value quoted as in Go
// when it holds bytes that matter, or "path -> target of a symbolic link". Paths below proc/ are
// those of procfs.
func fixture(t *testing.T, name string) inventory.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".sysfs"))
	if err != nil {
		t.Fatal(err)
	}
	sys := fstest.MapFS{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if path, target, ok := strings.Cut(line, " -> "); ok {
			sys[path] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
			continue
		}
		path, value, ok := strings.Cut(line, " = ")
		if !ok {
			t.Fatalf("%s: bad line %q", name, line)
		}
		if strings.HasPrefix(value, `"`) {
			if value, err = strconv.Unquote(value); err != nil {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
		} else {
			value += "\n"
		}
		sys[path] = &fstest.MapFile{Data: []byte(value)}
	}
	proc, err := fs.Sub(sys, "proc")
	if err != nil {
		t.Fatal(err)
	}
	return inventory.Reader{Sys: sys, Proc: proc, OpenDisk: func(string) (inventory.DiskReader, error) { return memory{}, nil }}
}

// memory is a disk that reads as its bytes, and zeros behind them.
type memory map[int64][]byte

func (memory) Close() error { return nil }
func (m memory) ReadAt(b []byte, offset int64) (int, error) {
	clear(b)
	for at, data := range m {
		for i, x := range data {
			if p := at + int64(i) - offset; p >= 0 && p < int64(len(b)) {
				b[p] = x
			}
		}
	}
	return len(b), nil
}

func TestReadVirtualMachine(t *testing.T) {
	got, err := fixture(t, "qemu-q35").Read()
	if err != nil {
		t.Fatal(err)
	}
	got.MarkBoot("52:54:00:99:00:01")
	want := inventory.Inventory{
		System: inventory.SystemInfo{
			Manufacturer: "LabCo", Product: "vServer", SerialNumber: "SN-1", UUID: "00000000-0000-4000-8000-525400990001", BIOSVersion: "2025.02-8",
		},
		CPU:         inventory.CPUInfo{Model: "QEMU TCG CPU version 2.5+", Sockets: 1, Cores: 2, Threads: 2},
		MemoryBytes: 2012345 << 10,
		Firmware:    inventory.FirmwareUEFI,
		Disks:       []inventory.Disk{{Name: "vda", SerialNumber: "DISK0", Type: inventory.DiskHDD, Bytes: 8 << 20, Blank: true}},
		NICs: []inventory.NIC{{
			Name: "eth0", MACAddress: "52:54:00:99:00:01", Driver: "virtio_net", PCIAddress: "0000:00:02.0", LinkUp: true, Boot: true,
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReadMetal(t *testing.T) {
	r := fixture(t, "metal")
	r.PermanentMAC = func(name string) (net.HardwareAddr, error) {
		if name == "eth1" {
			return net.HardwareAddr{0x0c, 0x42, 0xa1, 0, 0, 0x99}, nil
		}
		return nil, nil
	}
	got, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got.Firmware != inventory.FirmwareBIOS || got.MemoryBytes != 80<<30 {
		t.Errorf("firmware %s, memory %d, want BIOS and 80 GiB", got.Firmware, got.MemoryBytes)
	}
	if want := (inventory.CPUInfo{Model: "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz", Sockets: 2, Cores: 2, Threads: 4}); got.CPU != want {
		t.Errorf("CPU %+v, want %+v", got.CPU, want)
	}
	wantDisks := []inventory.Disk{
		{Name: "nvme0n1", SerialNumber: "S64GNE0R800431", WWN: "eui.36344730528004310025384e00000001", Model: "SAMSUNG MZQL23T8HCLS-00A07", Type: inventory.DiskNVMe, Bytes: 7501476528 * 512, Blank: true},
		{Name: "sda", SerialNumber: "WFK1ABCD", WWN: "naa.5000c500a1b2c3d7", Model: "SEAGATE ST1200MM0099", Type: inventory.DiskHDD, Bytes: 2344225968 * 512, Blank: true, Content: "multipath (also sdb)"},
		{Name: "sdb", SerialNumber: "WFK1ABCD", WWN: "naa.5000c500a1b2c3d7", Model: "SEAGATE ST1200MM0099", Type: inventory.DiskHDD, Bytes: 2344225968 * 512, Blank: true, Content: "multipath (also sda)"},
		{Name: "sdc", SerialNumber: "21012C9B8A5D", Model: "MICRON_5300_MTFD", Type: inventory.DiskSSD, Bytes: 468862128 * 512, Blank: true},
	}
	if !reflect.DeepEqual(got.Disks, wantDisks) {
		t.Errorf("disks\ngot  %+v\nwant %+v", got.Disks, wantDisks)
	}
	wantNICs := []inventory.NIC{
		{Name: "eth0", MACAddress: "0c:42:a1:00:00:10", Driver: "mlx5_core", PCIAddress: "0000:04:00.0", LinkUp: true, SpeedMbps: 25000},
		{Name: "eth1", MACAddress: "0c:42:a1:00:00:99", Driver: "mlx5_core", PCIAddress: "0000:04:00.1"},
	}
	if !reflect.DeepEqual(got.NICs, wantNICs) {
		t.Errorf("NICs\ngot  %+v\nwant %+v", got.NICs, wantNICs)
	}
	holders, err := r.Holders("sda")
	if err != nil || !reflect.DeepEqual(holders, []string{"dm-0 (vg0-root)", "md127"}) {
		t.Errorf("holders %q (%v)", holders, err)
	}
}

func TestReadReportsWhatFails(t *testing.T) {
	empty := inventory.Reader{Sys: fstest.MapFS{}, Proc: fstest.MapFS{}}
	_, err := empty.Read()
	for _, want := range []string{"/sys/block", "/sys/class/net", "meminfo"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	r := fixture(t, "qemu-q35")
	r.OpenDisk = func(string) (inventory.DiskReader, error) { return nil, errors.New("input/output error") }
	got, err := r.Read()
	if err != nil || got.Disks[0].Blank || got.Disks[0].Problem != "it can't be read: input/output error" {
		t.Errorf("broken disk: %+v (%v)", got.Disks[0], err)
	}
}

// The machine that runs the tests has processors and memory, whatever else it is.
func TestReadThisMachine(t *testing.T) {
	got, err := inventory.NewReader().Read()
	if err != nil {
		t.Logf("partly: %v", err)
	}
	if got.CPU.Threads < 1 || got.MemoryBytes < 64<<20 {
		t.Errorf("inventory of this machine: %+v", got)
	}
}
