package guest

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/machine/diskimage"
)

func TestPings(t *testing.T) {
	got := Pings(1500*time.Millisecond, netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6"))
	want := `#!ipxe
:again
ping --count 1 --quiet 10.0.0.5 && echo GUEST-PING-OK 10.0.0.5 || echo GUEST-PING-FAILED 10.0.0.5
ping --count 1 --quiet 10.0.0.6 && echo GUEST-PING-OK 10.0.0.6 || echo GUEST-PING-FAILED 10.0.0.6
sleep 1 ||
goto again
`
	if got != want {
		t.Errorf("user data:\n%s\nwant:\n%s", got, want)
	}
	if none := Pings(0); !strings.Contains(none, "sleep 1") {
		t.Errorf("got %q, want a pause of at least a second", none)
	}
}

// The script prints the lines that tests wait for.
func TestScriptPrintsTheLines(t *testing.T) {
	if !strings.HasPrefix(script, "#!ipxe\n") {
		t.Error("the script does not begin with #!ipxe, so iPXE would reject it")
	}
	for _, line := range []string{LineDHCP, LineMetadata, LineUp} {
		if !strings.Contains(script, "echo "+line) {
			t.Errorf("the script does not print %q", line)
		}
	}
}

func TestDisk(t *testing.T) {
	p := parts{
		boot: bytes.Repeat([]byte{'b'}, diskimage.SectorSize), core: bytes.Repeat([]byte{'c'}, 3*diskimage.SectorSize+1),
		kernel: bytes.Repeat([]byte{'k'}, 1000),
	}
	d, err := disk(p, "#!ipxe\n")
	if err != nil {
		t.Fatal(err)
	}
	at := func(sector, offset int) byte { return d[sector*diskimage.SectorSize+offset] }
	if len(d) != 2<<20 || !bytes.HasPrefix(d, console) || at(0, 510) != 0x55 || at(0, 511) != 0xaa {
		t.Error("no boot sector")
	}
	// Nova requires exactly one partition.
	if table := d[446:510]; table[0] != 0x80 || table[4] != 0x83 ||
		binary.LittleEndian.Uint32(table[8:]) != 1 || binary.LittleEndian.Uint32(table[12:]) != 4095 ||
		!bytes.Equal(table[16:], make([]byte, 48)) {
		t.Errorf("partition table %x", table)
	}
	// GRUB's parts find each other: boot.img the first sector of core.img, and that the other three.
	if at(1, 0) != 'b' || at(1, 0x5c) != 2 || at(2, 0) != 'c' || at(2, 0x1f4) != 3 || at(2, 0x1fc) != 3 {
		t.Error("GRUB is not at its position, or has a wrong one recorded")
	}
	if at(2048, 0) != 'k' || at(2048, 1000) != 0 {
		t.Error("iPXE is not at its position")
	}
	place := d[3072*diskimage.SectorSize : (3072+64)*diskimage.SectorSize]
	if text := string(place); strings.TrimRight(text, "\n") != "#!ipxe" {
		t.Errorf("the script's area has %q", strings.TrimRight(text, "\n"))
	}
}

func TestDiskRefusesPartsThatDoNotFit(t *testing.T) {
	good := parts{boot: make([]byte, 512), core: make([]byte, 2048), kernel: make([]byte, 512)}
	for name, c := range map[string]struct {
		change func(*parts)
		script string
		want   string
	}{
		"kernel": {func(p *parts) { p.kernel = make([]byte, 1024*512+1) }, "", "iPXE has 524289 bytes"},
		"core":   {func(p *parts) { p.core = make([]byte, 2046*512+1) }, "", "core.img has 1047553 bytes"},
		"boot":   {func(p *parts) { p.boot = nil }, "", "boot.img of GRUB has 0 bytes"},
		"script": {func(*parts) {}, strings.Repeat("x", 64*512+1), "script has 32769 bytes"},
	} {
		p := good
		c.change(&p)
		if _, err := disk(p, c.script); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// imagesFolder returns an images folder with a node image that has the guest's parts.
func imagesFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cache, image := filepath.Join(dir, "node/.rootfs/k"), filepath.Join(dir, "node/v1")
	for _, d := range []string{filepath.Join(cache, "guest"), image} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, size := range map[string]int{"rootfs.tar.zst": 0, "guest/boot.img": 512, "guest/core.img": 2048, "guest/ipxe.lkrn": 512} {
		if err := os.WriteFile(filepath.Join(cache, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"node/current": "v1", "node/v1/rootfs": "../.rootfs/k"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuildAndPath(t *testing.T) {
	dir := imagesFolder(t)
	if _, err := Path(dir); err == nil || !strings.Contains(err.Error(), "regiond image build --guest") {
		t.Errorf("Path before Build: error %v, want what to do", err)
	}
	first, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(dir)
	if err != nil || again != first {
		t.Errorf("second build %v, %v; want %v", again, err, first)
	}
	if path, err := Path(dir); err != nil || path != first.Path || !strings.Contains(path, first.Digest) {
		t.Errorf("Path %q, %v; want %q", path, err, first.Path)
	}
	// A different iPXE gives a different guest.
	if err := os.WriteFile(filepath.Join(dir, "node/.rootfs/k/guest/ipxe.lkrn"), []byte("next"), 0o644); err != nil {
		t.Fatal(err)
	}
	next, err := Build(dir)
	if path, pathErr := Path(dir); err != nil || pathErr != nil || next.Digest == first.Digest || path != next.Path {
		t.Errorf("after a change: got %v, %v, and Path %q, %v; want another image, and its path", next, err, path, pathErr)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "guest"))
	if err != nil || len(entries) != 3 {
		t.Errorf("%d entries, %v; want two disks and the link", len(entries), err)
	}
	if err := os.Remove(filepath.Join(dir, "node/.rootfs/k/guest/core.img")); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(dir); err == nil || !strings.Contains(err.Error(), "core.img") || !strings.Contains(err.Error(), "--refresh") {
		t.Errorf("error %v, want the file and what to do", err)
	}
}
