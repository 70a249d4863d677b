package images

import (
	"slices"
	"strings"
	"testing"
)

func TestLockDiff(t *testing.T) {
	old, err := parseLock("# comment\n\nsystemd=257.12-1\nudev=257.12-1\nlibc6=2.41-12\n")
	if err != nil {
		t.Fatal(err)
	}
	now := lockFile{"systemd": "257.13-1", "udev": "257.12-1", "kmod": "34.2-2"}
	var got []string
	for _, c := range old.diff(now) {
		got = append(got, c.String())
	}
	want := []string{"kmod 34.2-2 (new)", "libc6 2.41-12 (gone)", "systemd 257.12-1 -> 257.13-1"}
	if !slices.Equal(got, want) {
		t.Errorf("diff %q, want %q", got, want)
	}
	if changes := now.diff(now); changes != nil {
		t.Errorf("diff with itself: %v", changes)
	}
}

func TestLockRoundTrip(t *testing.T) {
	lock := lockFile{"b": "1:2.3-4+deb13u1", "a": "1~rc1"}
	if text := lock.String(); text != "a=1~rc1\nb=1:2.3-4+deb13u1\n" {
		t.Errorf("text %q is not sorted", text)
	}
	again, err := parseLock(lock.String())
	if err != nil || len(again.diff(lock)) > 0 {
		t.Errorf("read again: %v, %v", again, err)
	}
}

func TestLockRefusesNonsense(t *testing.T) {
	for _, text := range []string{"systemd", "=1", "systemd=", "a=1\na=2"} {
		if _, err := parseLock(text); err == nil {
			t.Errorf("%q was read as a lock file", text)
		}
	}
}

func TestLockedErrorNamesChanges(t *testing.T) {
	changes := make([]Change, 12)
	for i := range changes {
		changes[i] = Change{Package: "p" + strings.Repeat("x", i), Old: "1", New: "2"}
	}
	err := lockedError("trixie", changes)
	for _, want := range []string{"12 packages", "px 1 -> 2", "and 2 more", "trixie.lock", "--locked"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestPrerequisitesNamesAll(t *testing.T) {
	err := checkPrerequisites(1000, func(path string) bool { return strings.HasSuffix(path, "/tar") || strings.HasSuffix(path, "/chroot") })
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{"runs as root", "1000", "mmdebstrap", "mke2fs", "mkfs.vfat", "mcopy",
		"apt-get install --no-install-recommends debian-archive-keyring dosfstools dpkg e2fsprogs mmdebstrap mtools zstd"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if err := checkPrerequisites(0, func(string) bool { return true }); err != nil {
		t.Errorf("all is there, but: %v", err)
	}
}

func TestLineWriter(t *testing.T) {
	var lines []string
	w := &lineWriter{each: func(l string) { lines = append(lines, l) }}
	for _, part := range []string{"I: a", "b\n", "\n  c\rd\n", "no end"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"I: ab", "c", "d"}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if _, err := w.Write([]byte(strings.Repeat("x", 2*tailSize))); err != nil || len(w.last()) != tailSize {
		t.Errorf("%d bytes are remembered (%v), want %d", len(w.last()), err, tailSize)
	}
}

func TestCommandSaysWhatFailed(t *testing.T) {
	err := command{name: "sh", args: []string{"-c", "echo the disk is full >&2; exit 3"}}.run(t.Context())
	// Without the right to make a mount namespace nothing is run at all, which is said as well.
	if err == nil || !(strings.Contains(err.Error(), "the disk is full") || strings.Contains(err.Error(), "not permitted")) {
		t.Errorf("error %v does not have the program's last words", err)
	}
	if err := (command{name: "regiond-no-such-program"}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("error %v for a program that does not exist", err)
	}
}
