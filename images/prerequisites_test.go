package images

import (
	"strings"
	"testing"

	"regiond.dev/regiond/images/debian"
)

func TestLockedErrorNamesChanges(t *testing.T) {
	changes := make([]debian.Change, 12)
	for i := range changes {
		changes[i] = debian.Change{Package: "p" + strings.Repeat("x", i), Old: "1", New: "2"}
	}
	err := lockedError("trixie", changes)
	for _, want := range []string{"12 packages", "px 1 -> 2", "and 2 more", "trixie.lock", "--locked"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestPrerequisitesNamesAll(t *testing.T) {
	err := debian.CheckPrerequisites(1000, prerequisites, func(path string) bool { return strings.HasSuffix(path, "/tar") || strings.HasSuffix(path, "/chroot") })
	if err == nil {
		t.Fatal("got no error, want the missing prerequisites")
	}
	for _, want := range []string{"must run as root", "1000", "mmdebstrap", "mke2fs", "mkfs.vfat", "mcopy",
		"apt-get install --no-install-recommends debian-archive-keyring dosfstools dpkg e2fsprogs mmdebstrap mtools zstd"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if err := debian.CheckPrerequisites(0, prerequisites, func(string) bool { return true }); err != nil {
		t.Errorf("with everything installed: got error %v", err)
	}
}
