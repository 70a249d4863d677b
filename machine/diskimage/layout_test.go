package diskimage_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"regiond.dev/regiond/machine/diskimage"
)

func TestValidate(t *testing.T) {
	good := func() *diskimage.Manifest { return testManifest(t, t.TempDir()) }
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(m *diskimage.Manifest){
		"version is empty":           func(m *diskimage.Manifest) { m.Version = "" },
		"mbr has 441 bytes":          func(m *diskimage.Manifest) { m.MBR = make([]byte, 441) },
		`partition "esp" is missing`: func(m *diskimage.Manifest) { m.Partitions = m.Partitions[2:] },
		"out of order":               func(m *diskimage.Manifest) { m.Partitions[0], m.Partitions[1] = m.Partitions[1], m.Partitions[0] },
		`label "root-b" is unknown`:  func(m *diskimage.Manifest) { m.Partitions[2].Label = "root-b" },
		"exactly 1048576":            func(m *diskimage.Manifest) { m.Partitions[0].Size *= 2 },
		"no \"bios\" partition":      func(m *diskimage.Manifest) { m.Partitions = m.Partitions[1:] },
		"multiple of 1 MiB":          func(m *diskimage.Manifest) { m.Partitions[1].Size++ },
		"beyond the partition":       func(m *diskimage.Manifest) { m.Partitions[1].Chunks[0].Offset = 1 << 62 },
		"is not 64 lower-case hex":   func(m *diskimage.Manifest) { m.Partitions[1].Chunks[0].SHA256 = "../../../../etc/passwd" },
		"before the end":             func(m *diskimage.Manifest) { m.Partitions[1].Chunks[0].Offset = -1 },
		"length":                     func(m *diskimage.Manifest) { m.Partitions[1].Chunks[0].Length = 5 << 20 },
		"compressed size":            func(m *diskimage.Manifest) { m.Partitions[1].Chunks[0].Compressed = 1 << 40 },
	} {
		m := good()
		spoil(m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestGaps(t *testing.T) {
	p := diskimage.Partition{Size: 100, Chunks: []diskimage.Chunk{{Offset: 10, Length: 20}, {Offset: 30, Length: 10}, {Offset: 50, Length: 40}}}
	if got, want := p.Gaps(), []diskimage.Range{{0, 10}, {40, 10}, {90, 10}}; !reflect.DeepEqual(got, want) {
		t.Fatalf("gaps %v, want %v", got, want)
	}
	if got, want := (&diskimage.Partition{Size: 7}).Gaps(), []diskimage.Range{{0, 7}}; !reflect.DeepEqual(got, want) {
		t.Fatalf("gaps of nothing %v, want %v", got, want)
	}
}

// least is the smallest disk for testManifest: 1 MiB, bios 1, esp 2, root 2*6, data 2, 1 MiB.
const least = 19 * diskimage.MiB

func TestLayout(t *testing.T) {
	m := testManifest(t, t.TempDir())
	parts, err := diskimage.Layout(m, least+5*diskimage.MiB+1234)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		label             string
		index             int
		startMiB, sizeMiB int64
	}
	var got []place
	for _, p := range parts {
		got = append(got, place{p.Label, p.Index, p.Offset() / diskimage.MiB, p.Bytes() / diskimage.MiB})
	}
	want := []place{{"bios", 1, 1, 1}, {"esp", 2, 2, 2}, {"root-a", 3, 4, 6}, {"root-b", 4, 10, 6}, {"data", 5, 16, 7}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("layout %v, want %v", got, want)
	}
	if _, err := diskimage.Layout(m, least); err != nil {
		t.Fatalf("a disk of the exact size: %v", err)
	}
	_, err = diskimage.Layout(m, least-1)
	if err == nil || !strings.Contains(err.Error(), "19922944 bytes") || !strings.Contains(err.Error(), "19922943 bytes") {
		t.Fatalf("disk too small: %v; want both numbers", err)
	}
}

// The table is read by sfdisk of util-linux, which also verifies its checksums.
func TestTableReadBySfdisk(t *testing.T) {
	for _, size := range []int64{least, 3 << 40} {
		path := filepath.Join(t.TempDir(), "disk")
		disk, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer disk.Close()
		if err := disk.Truncate(size); err != nil {
			t.Fatal(err)
		}
		m := testManifest(t, t.TempDir())
		parts, err := diskimage.Layout(m, size)
		if err != nil {
			t.Fatal(err)
		}
		guids, err := diskimage.WriteTable(disk, size, parts, m.MBR)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors detected") {
			t.Fatalf("sfdisk --verify: %v\n%s", err, out)
		}
		out, err := exec.Command("sfdisk", "--json", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		var dump struct {
			PartitionTable struct {
				Label      string
				Partitions []struct {
					Start, Size uint64
					Type        string
					UUID, Name  string
					Attrs       string
				}
			}
		}
		if err := json.Unmarshal(out, &dump); err != nil {
			t.Fatal(err)
		}
		if dump.PartitionTable.Label != "gpt" || len(dump.PartitionTable.Partitions) != len(parts) {
			t.Fatalf("sfdisk sees %+v", dump)
		}
		for i, p := range dump.PartitionTable.Partitions {
			w := parts[i]
			if p.Name != w.Label || p.Start != w.StartLBA || p.Size != w.EndLBA-w.StartLBA+1 || p.Type != w.TypeGUID || p.UUID != guids[w.Label] ||
				(p.Attrs != "") != (w.Attributes != 0) {
				t.Errorf("sfdisk sees %+v, written %+v with GUID %s", p, w, guids[w.Label])
			}
		}
		back, backGUIDs, err := diskimage.ReadTable(disk)
		if err != nil || !reflect.DeepEqual(back, parts) || !reflect.DeepEqual(backGUIDs, guids) {
			t.Fatalf("read back %+v %v (%v)", back, backGUIDs, err)
		}
		sector := make([]byte, 512)
		if _, err := disk.ReadAt(sector, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sector[:440], m.MBR) {
			t.Error("boot code is not in the first sector")
		}
		if got, want := binary.LittleEndian.Uint32(sector[458:]), uint32(min(size/512-1, 0xFFFFFFFF)); got != want {
			t.Errorf("size in the protective MBR %#x, want %#x", got, want)
		}
	}
}

func TestGRUBForBIOS(t *testing.T) {
	boot, core := bytes.Repeat([]byte{1}, 512), bytes.Repeat([]byte{2}, 3*512+10)
	mbr, bios, err := diskimage.GRUBForBIOS(boot, core)
	if err != nil {
		t.Fatal(err)
	}
	if len(mbr) != 440 || binary.LittleEndian.Uint64(mbr[0x5c:]) != 2048 || len(bios) != diskimage.MiB {
		t.Fatalf("boot code loads sector %d", binary.LittleEndian.Uint64(mbr[0x5c:]))
	}
	if start, n := binary.LittleEndian.Uint64(bios[0x1f4:]), binary.LittleEndian.Uint16(bios[0x1fc:]); start != 2049 || n != 3 {
		t.Fatalf("block list %d+%d, want 2049+3", start, n)
	}
	if _, _, err := diskimage.GRUBForBIOS(boot, make([]byte, diskimage.MiB+1)); err == nil {
		t.Fatal("core.img over 1 MiB was accepted")
	}
}
