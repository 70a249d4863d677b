package apply

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/configuration"
)

// A full disk is told of, nothing is half applied, and it goes on when there is space.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small file system: run it as root")
	}
	w := newWorld(t)
	small := w.path("/etc/zz")
	if err := os.MkdirAll(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("small", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, 0); err != nil {
			t.Error(err)
		}
	})
	w.conf = before()
	a := w.applier()
	a.want(encode(t, before()))
	w.step(a)
	w.took()
	large := after()
	large.Files = append(slices.Clone(large.Files), file("/etc/zz/large.conf", strings.Repeat("x", 256<<10)))
	w.conf = large
	slices.SortFunc(large.Files, func(a, b configuration.File) int { return strings.Compare(a.Path, b.Path) })
	a.want(encode(t, large))
	for range 2 {
		w.step(a)
		if r := w.last(); r.Reason != "ApplyFailed" || !strings.Contains(r.Message, "/etc/zz/large.conf") || !strings.Contains(r.Message, "no space left on device") {
			t.Errorf("%+v", r)
		}
		if took := w.took(); took != "" || w.content("/etc/nova/nova.conf") != "debug=0" || w.content("/etc/new/dir/new.conf") != "" || a.journal.pending != nil {
			t.Errorf("something was done: %s", took)
		}
		a = w.applier() // with a full disk, too, an agent starts
		a.want(encode(t, large))
	}
	if list, err := os.ReadDir(small); err != nil || len(list) != 0 {
		t.Errorf("%v was left (%v)", list, err)
	}
	if err := unix.Mount("", small, "", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Minute)
	w.step(a)
	if err := w.holds(a, large, before()); err != nil {
		t.Error(err)
	}
}
