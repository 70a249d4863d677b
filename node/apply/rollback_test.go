package apply

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

func TestNetworkThatCutsOff(t *testing.T) {
	const networkFile = "/etc/systemd/network/10-data.network"
	w := newWorld(t)
	w.write("/etc/other.conf", "of the image", 0o644)
	good, bad := before(), after()
	good.Files = append(slices.Clone(good.Files[:4]), append([]configuration.File{{Path: networkFile, Mode: "0644", Owner: "root", Group: "root", Content: "good", Network: true}}, good.Files[4:]...)...)
	bad.Files = append(slices.Clone(bad.Files[:3]), append([]configuration.File{file("/etc/other.conf", "mine"), bad.Files[3],
		{Path: networkFile, Mode: "0644", Owner: "root", Group: "root", Content: "bad", Network: true}}, bad.Files[4:]...)...)
	slices.SortFunc(good.Files, func(a, b configuration.File) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(bad.Files, func(a, b configuration.File) int { return strings.Compare(a.Path, b.Path) })
	w.reach = func() error {
		if w.content(networkFile) == "bad" {
			return errors.New("no route to host")
		}
		return nil
	}
	w.conf = good
	a := w.applier()
	a.want(encode(t, good))
	w.step(a)
	if err := w.holds(a, good, configuration.Configuration{}); err != nil {
		t.Fatal(err)
	}
	if took := w.took(); countOf(strings.Split(took, ", "), "reload-network") != 1 {
		t.Errorf("took %s", took)
	}
	a.Probe = 30 * time.Millisecond
	a.want(encode(t, bad))
	w.step(a)
	rolledBack := func(r Report) bool {
		return !r.Configured && r.Reason == "RolledBack" && strings.Contains(r.Message, "no route to host") && strings.Contains(r.Message, "until it changes")
	}
	if r := w.last(); !rolledBack(r) || r.Digest != a.journal.applied.Digest {
		t.Errorf("%+v", r)
	}
	if w.content(networkFile) != "good" || w.content("/etc/other.conf") != "of the image" || w.content("/etc/nova/nova.conf") != "debug=0" || w.content("/etc/new/dir/new.conf") != "" {
		t.Error("not all files were put back")
	}
	if took := w.took(); countOf(strings.Split(took, ", "), "reload-network") != 2 || !w.unit("gone.service").Runs() || w.unit("new.service").Runs() {
		t.Errorf("took %s", took)
	}
	// It is not tried again, also not by an agent that starts anew.
	for range 2 {
		w.step(a)
		a = w.applier()
		a.want(encode(t, bad))
		w.step(a)
		if took := w.took(); took != "" || !rolledBack(w.last()) {
			t.Errorf("took %q, %+v", took, w.last())
		}
	}
	a.want(encode(t, good))
	w.step(a)
	if err := w.holds(a, good, bad); err != nil && !strings.Contains(err.Error(), "/etc/other.conf") { // the image's is still there
		t.Error(err)
	}
	bad.Files[0].Content = "changed"
	w.reach = func() error { return nil }
	w.conf = bad
	a.want(encode(t, bad))
	w.step(a)
	if err := w.holds(a, bad, good); err != nil {
		t.Error(err)
	}
}

// A host that goes down again and again while it tries a configuration stops trying.
func TestNetworkThatKills(t *testing.T) {
	w := newWorld(t)
	bad := before()
	bad.Files = slices.Clone(bad.Files)
	bad.Files[0].Network = true
	w.conf = bad
	a := w.applier()
	for range mostInterrupted {
		a.want(encode(t, bad))
		a.between = func(step string) error {
			if step == "probing" {
				return errCut
			}
			return nil
		}
		if err := a.step(t.Context()); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		w.units = map[string]*service.State{}
		if err := w.applier().Restore(); err != nil {
			t.Fatal(err)
		}
		if w.content(bad.Files[0].Path) != "" {
			t.Error("the unconfirmed file is there at boot")
		}
		a = w.applier()
		w.step(a)
	}
	a.want(encode(t, bad))
	w.step(a)
	if r := w.last(); r.Reason != "RolledBack" || !strings.Contains(r.Message, "went down 3 times") {
		t.Errorf("%+v", r)
	}
}
