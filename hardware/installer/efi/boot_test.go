package efi_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/hardware/installer/efi"
)

const global = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"

var entry = efi.BootEntry{
	Label: "regiond", Path: `\EFI\systemd\systemd-bootx64.efi`, Partition: 2, StartLBA: 4096, Sectors: 524288,
	PartitionGUID: "01234567-89AB-CDEF-8123-456789ABCDEF",
}

// regiondOption is the EFI_LOAD_OPTION of that entry, put together by hand from UEFI 2.10 sections 3.1.3,
// 10.3.5.1 and 10.3.5.4. (That firmware boots what is made of it, the QEMU test shows.)
const regiondOption = "01000000" + "7400" + "72006500670069006f006e0064000000" +
	"04012a00" + "02000000" + "0010000000000000" + "0000080000000000" + "67452301ab89efcd8123456789abcdef" + "0202" +
	"04044600" + "5c004500460049005c00730079007300740065006d0064005c00730079007300740065006d0064002d0062006f006f0074007800360034002e006500660069000000" +
	"7fff0400"

// variables is a folder with the given files, content without attributes in hex.
func variables(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		b, err := hex.DecodeString("07000000" + content)
		if n, cut := strings.CutPrefix(content, "cut "); cut {
			b, err = []byte{7, 0, 0, 0}[:n[0]-'0'], nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+global), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+global))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 4 {
			found[strings.TrimSuffix(filepath.Base(f), global)] = fmt.Sprintf("cut %d", len(b))
			continue
		}
		text, ok := strings.CutPrefix(hex.EncodeToString(b), "07000000")
		if !ok {
			t.Errorf("%s has attributes %x", f, b[:4])
		}
		found[strings.TrimSuffix(filepath.Base(f), global)] = text
	}
	return found
}

// Options of firmware: "UEFI PXE" and an old entry of ours for a partition that is gone.
const (
	pxe  = "01000000" + "0400" + "5500450046004900200050005800450000" + "00" + "7fff0400"
	old  = "01000000" + "0400" + "72006500670069006f006e0064000000" + "7fff0400"
	like = "01000000" + "0400" + "72006500670069006f006e00640032000000" + "7fff0400" // regiond2
)

// store is variables of firmware, before and after.
type store struct{ before, after map[string]string }

// A variable whose content is given as "cut N" has N bytes in all, too few for its attributes when N < 4.
var oddVariables = map[string]store{
	"lower-case name of a stranger keeps its number": {
		map[string]string{"Boot0000": pxe, "Boot000a": pxe, "BootOrder": "00000a00"},
		map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "Boot000a": pxe, "BootOrder": "010000000a00"},
	},
	"lower-case name of an old entry of ours": {
		map[string]string{"Boot0000": pxe, "Boot000a": old, "BootOrder": "0a000000"},
		map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "BootOrder": "01000000"},
	},
	"both forms of one number": {
		map[string]string{"Boot000A": old, "Boot000a": pxe, "BootOrder": "0a00"},
		map[string]string{"Boot000A": regiondOption, "Boot000a": pxe, "BootOrder": "0a00"},
	},
	"an empty entry": {
		map[string]string{"Boot0000": "", "Boot0001": pxe, "BootOrder": "01000000"},
		map[string]string{"Boot0000": "", "Boot0001": pxe, "Boot0002": regiondOption, "BootOrder": "020001000000"},
	},
	"a file without a byte": {
		map[string]string{"Boot0000": "cut 0", "BootOrder": "0000"},
		map[string]string{"Boot0000": "cut 0", "Boot0001": regiondOption, "BootOrder": "01000000"},
	},
	"an entry of two bytes": {
		map[string]string{"Boot0000": "cut 2", "Boot0001": old, "BootOrder": "00000100"},
		map[string]string{"Boot0000": "cut 2", "Boot0001": regiondOption, "BootOrder": "01000000"},
	},
	"an entry cut off in its label": {
		map[string]string{"Boot0000": "010000000400720065", "BootOrder": "0000"},
		map[string]string{"Boot0000": "010000000400720065", "Boot0001": regiondOption, "BootOrder": "01000000"},
	},
	"an empty order": {
		map[string]string{"Boot0000": pxe, "BootOrder": ""},
		map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "BootOrder": "0100"},
	},
	"an order without a byte": {
		map[string]string{"Boot0000": pxe, "BootOrder": "cut 0"},
		map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "BootOrder": "0100"},
	},
	"an order of three bytes": {
		map[string]string{"Boot0000": pxe, "BootOrder": "000001"},
		map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "BootOrder": "01000000"},
	},
	"an order that repeats and names what is gone": {
		map[string]string{"Boot0000": pxe, "BootOrder": "0000070000000700"},
		map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "BootOrder": "010000000700"},
	},
}

// Each odd variable that firmware or another system left is judged alone, and none is touched without need.
func TestSetBootEntryAmongOddVariables(t *testing.T) {
	setBootEntry(t, oddVariables)
}

// A variable that can't be read at all, here a folder, is not ours and hinders nobody.
func TestSetBootEntryBesideAnUnreadableVariable(t *testing.T) {
	dir := variables(t, map[string]string{"BootOrder": "0000"})
	if err := os.Mkdir(filepath.Join(dir, "Boot0000"+global), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := efi.SetBootEntry(dir, entry); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "BootOrder"+global))
	if err != nil || hex.EncodeToString(b) != "0700000001000000" {
		t.Errorf("BootOrder %x (%v)", b, err)
	}
}

// Firmware that takes a write and forgets it is found out.
func TestSetBootEntryReadsBack(t *testing.T) {
	dir := variables(t, map[string]string{"BootOrder": "0000"})
	// A device that swallows everything and reads as empty.
	if err := os.Symlink("/dev/null", filepath.Join(dir, "Boot0000"+global)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "BootOrder"+global)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "BootOrder"+global)); err != nil {
		t.Fatal(err)
	}
	if err := efi.SetBootEntry(dir, entry); err == nil || !strings.Contains(err.Error(), "BootOrder") {
		t.Errorf("error %v, want one about BootOrder", err)
	}
}

func TestSetBootEntry(t *testing.T) {
	setBootEntry(t, map[string]store{
		"empty store": {
			nil,
			map[string]string{"Boot0000": regiondOption, "BootOrder": "0000"},
		},
		"next free number, first in the order": {
			map[string]string{"Boot0000": pxe, "Boot0002": like, "BootOrder": "00000200", "BootCurrent": "0000"},
			map[string]string{"Boot0000": pxe, "Boot0001": regiondOption, "Boot0002": like, "BootOrder": "010000000200", "BootCurrent": "0000"},
		},
		"an old entry is reused and the others are removed": {
			map[string]string{"Boot0000": pxe, "Boot0003": old, "Boot000A": old, "BootOrder": "00000a000300"},
			map[string]string{"Boot0000": pxe, "Boot0003": regiondOption, "BootOrder": "03000000"},
		},
		"nothing to do": {
			map[string]string{"Boot0001": regiondOption, "BootOrder": "0100"},
			map[string]string{"Boot0001": regiondOption, "BootOrder": "0100"},
		},
	})
}

// setBootEntry in stores of variables, and compare what becomes of them.
func setBootEntry(t *testing.T, stores map[string]store) {
	t.Helper()
	for name, tc := range stores {
		dir := variables(t, tc.before)
		if err := efi.SetBootEntry(dir, entry); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := contents(t, dir); !reflect.DeepEqual(got, tc.after) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, got, tc.after)
		}
	}
}

// A variable that has the desired content is not written again.
func TestSetBootEntrySparesFlash(t *testing.T) {
	dir := variables(t, map[string]string{"Boot0001": regiondOption, "BootOrder": "0100"})
	path := filepath.Join(dir, "Boot0001"+global)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := efi.SetBootEntry(dir, entry); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("variable was written again (%v)", err)
	}
}

// efivarfs marks variables immutable, as chattr +i does.
func TestSetBootEntryTakesImmutableFlagAway(t *testing.T) {
	dir := variables(t, map[string]string{"Boot0003": old, "BootOrder": "0300"})
	f, err := os.Open(filepath.Join(dir, "Boot0003"+global))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Fatalf("this test needs root and a file system with attributes: %v", err)
	}
	if err := efi.SetBootEntry(dir, entry); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir)["Boot0003"]; got != regiondOption {
		t.Errorf("Boot0003 is %s", got)
	}
}

func TestSetBootEntryErrors(t *testing.T) {
	if err := efi.SetBootEntry(filepath.Join(t.TempDir(), "none"), entry); err == nil {
		t.Error("a missing folder of variables gave no error")
	}
	bad := entry
	bad.PartitionGUID = "no"
	if err := efi.SetBootEntry(t.TempDir(), bad); err == nil || !strings.Contains(err.Error(), `"no"`) {
		t.Errorf("bad GUID: %v", err)
	}
}

func TestLoaderPartition(t *testing.T) {
	dir := t.TempDir()
	if got := efi.LoaderPartition(dir); got != "" {
		t.Errorf("without the variable: %q", got)
	}
	value := []byte{6, 0, 0, 0}
	for _, c := range "01234567-89ab-cdef-8123-456789abcdef\x00" {
		value = append(value, byte(c), 0)
	}
	path := filepath.Join(dir, "LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
	if err := os.WriteFile(path, value, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := efi.LoaderPartition(dir); got != entry.PartitionGUID {
		t.Errorf("got %q, want %q", got, entry.PartitionGUID)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, 9), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := efi.LoaderPartition(dir); got != "" {
		t.Errorf("broken variable: %q", got)
	}
}
