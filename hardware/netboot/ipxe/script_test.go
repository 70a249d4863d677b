package ipxe

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

var server = netip.MustParseAddr("10.99.0.1")

// The scripts as they go over the wire. That iPXE runs them is shown by netboot's tests in QEMU.
func TestGolden(t *testing.T) {
	job, err := Job(server, "00112233445566778899aabbccddeeff", []string{"console=tty0", "console=ttyS0,115200", "panic=30"})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"bootstrap.ipxe": Bootstrap(server), "nojob.ipxe": NoJob(), "job.ipxe": job} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
		if !strings.HasPrefix(got, "#!ipxe\n") {
			t.Errorf("%s lacks the magic of a script", name)
		}
	}
}

func TestJobRefusesWhatIPXEWouldChange(t *testing.T) {
	for _, bad := range []string{"", "a b", "a\nshell", "a\tb", "${uuid}", "x=${net0/mac}", "#comment", "&&", "||", ";", "é", "a\x00b", "\x1b[2J"} {
		if s, err := Job(server, "00", []string{"quiet", bad}); err == nil {
			t.Errorf("argument %q was taken:\n%s", bad, s)
		}
		if _, err := Job(server, bad, nil); err == nil {
			t.Errorf("nonce %q was taken", bad)
		}
	}
	for _, good := range []string{"console=ttyS0,115200", "root=PARTLABEL=root-a", `modprobe.blacklist="a,b"`, "a&&b", "$x", "{x}"} {
		if _, err := Job(server, "00", []string{good}); err != nil {
			t.Errorf("argument %q: %v", good, err)
		}
	}
}
