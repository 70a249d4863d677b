package debian

import (
	"slices"
	"strings"
	"testing"
)

func TestLockDiff(t *testing.T) {
	old, err := ParseLock("# comment\n\nsystemd=257.12-1\nudev=257.12-1\nlibc6=2.41-12\n")
	if err != nil {
		t.Fatal(err)
	}
	now := Lock{"systemd": "257.13-1", "udev": "257.12-1", "kmod": "34.2-2"}
	var got []string
	for _, c := range old.Diff(now) {
		got = append(got, c.String())
	}
	want := []string{"kmod 34.2-2 (new)", "libc6 2.41-12 (gone)", "systemd 257.12-1 -> 257.13-1"}
	if !slices.Equal(got, want) {
		t.Errorf("diff %q, want %q", got, want)
	}
	if changes := now.Diff(now); changes != nil {
		t.Errorf("diff with itself: got %v, want none", changes)
	}
}

func TestLockRoundTrip(t *testing.T) {
	lock := Lock{"b": "1:2.3-4+deb13u1", "a": "1~rc1"}
	if text := lock.String(); text != "a=1~rc1\nb=1:2.3-4+deb13u1\n" {
		t.Errorf("text %q is not sorted", text)
	}
	again, err := ParseLock(lock.String())
	if err != nil || len(again.Diff(lock)) > 0 {
		t.Errorf("parsed again: got %v, error %v; want %v", again, err, lock)
	}
}

func TestLockRefusesNonsense(t *testing.T) {
	for _, text := range []string{"systemd", "=1", "systemd=", "a=1\na=2"} {
		if _, err := ParseLock(text); err == nil {
			t.Errorf("%q was accepted as a lock file", text)
		}
	}
}

func TestSummary(t *testing.T) {
	changes := Lock{"a": "1", "b": "1", "c": "1"}.Diff(Lock{"a": "2"})
	if got, want := Summary(changes, 2), []string{"a 1 -> 2", "b 1 (gone)", "and 1 more"}; !slices.Equal(got, want) {
		t.Errorf("summary %q, want %q", got, want)
	}
}

func TestPrerequisitesNamesAll(t *testing.T) {
	needed := []Prerequisite{{"mmdebstrap", "mmdebstrap"}, {Keyring, "debian-archive-keyring"}, {"chroot", "coreutils"}}
	err := CheckPrerequisites(1000, needed, func(path string) bool { return path == "/usr/sbin/chroot" })
	if err == nil {
		t.Fatal("got no error, want the missing prerequisites")
	}
	for _, want := range []string{"must run as root", "user id 1000", "debian-archive-keyring mmdebstrap"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "coreutils") {
		t.Errorf("error %q names a program that is installed", err)
	}
	if err := CheckPrerequisites(0, needed, func(string) bool { return true }); err != nil {
		t.Errorf("with everything installed: %v", err)
	}
}

func TestKey(t *testing.T) {
	key := func(name, content string) string {
		k := NewKey("1")
		k.Field(name, content)
		return k.Sum()
	}
	first, again := key("a", "b"), key("a", "b")
	if key("a", "bc") == key("ab", "c") || first != again || len(first) != 12 {
		t.Error("keys do not distinguish fields, or are not stable")
	}
}
