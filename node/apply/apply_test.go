package apply

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

func TestApply(t *testing.T) {
	w := newWorld(t)
	a := w.applier()
	w.step(a)
	if len(w.reports) > 0 {
		t.Errorf("a host without a configuration reports %+v", w.reports)
	}
	w.conf = before()
	a.want(encode(t, before()))
	w.step(a)
	if err := w.holds(a, before(), configuration.Configuration{}); err != nil {
		t.Fatal(err)
	}
	w.took()
	w.step(a)
	a.want(encode(t, before()))
	w.step(a)
	if took, n := w.took(), len(w.reports); took != "" || n != 2 {
		t.Errorf("an unchanged host took %q, and has %d reports", took, n)
	}
	w.conf = after()
	a.want(encode(t, after()))
	w.step(a)
	if err := w.holds(a, after(), before()); err != nil {
		t.Fatal(err)
	}
	want := "stop gone.service, disable gone.service, reload-units, enable new.service, start new.service, restart nova-compute.service, reload reloads.service"
	if took := w.took(); took != want {
		t.Errorf("took\n%s\nwant\n%s", took, want)
	}
	// The agent starts again, and later the host from another image, whose /etc is fresh; the control plane is away.
	a = w.applier()
	w.step(a)
	if took := w.took(); took != "" {
		t.Errorf("a new agent took %q", took)
	}
	for _, f := range after().Files {
		if err := os.Remove(w.path(f.Path)); err != nil {
			t.Fatal(err)
		}
	}
	w.units = map[string]*service.State{}
	if err := os.Remove(w.path("run.json")); err != nil {
		t.Fatal(err)
	}
	if err := w.applier().Restore(); err != nil {
		t.Fatal(err)
	}
	if w.content("/etc/nova/nova.conf") != "debug=1" || w.took() != "" {
		t.Error("files are not there before services are started")
	}
	a = w.applier()
	w.step(a)
	if err := w.holds(a, after(), before()); err != nil {
		t.Fatal(err)
	}
}

// A cut at every step, by a kill or by the loss of power, with and without the control plane afterwards.
func TestCutAtEveryStep(t *testing.T) {
	network := func(c configuration.Configuration) configuration.Configuration {
		c.Files = slices.Clone(c.Files)
		for i := range c.Files {
			c.Files[i].Network = c.Files[i].Path == "/etc/nova/nova.conf"
		}
		return c
	}
	for _, tt := range []struct {
		name          string
		power, away   bool
		before, after configuration.Configuration
	}{
		{"kill", false, false, before(), after()},
		{"kill, control plane away", false, true, before(), after()},
		{"power", true, false, before(), after()},
		{"power, control plane away", true, true, before(), after()},
		{"network, kill", false, false, network(before()), network(after())},
		{"network, power, control plane away", true, true, network(before()), network(after())},
		{"first one", true, true, configuration.Configuration{}, after()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cuts := 0
			for n := 0; ; n++ {
				w := newWorld(t)
				a := w.applier()
				w.conf = tt.before
				if len(tt.before.Files) > 0 {
					a.want(encode(t, tt.before))
					w.step(a)
				}
				w.took()
				w.conf = tt.after
				left, at := n, ""
				a.between = func(step string) error {
					if left--; left < 0 {
						at = step
						return errCut
					}
					return nil
				}
				a.want(encode(t, tt.after))
				if err := a.step(t.Context()); err == nil {
					break
				} else if !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				cuts++
				for _, f := range slices.Concat(tt.before.Files, tt.after.Files) {
					if have := w.content(f.Path); have != "" && !slices.ContainsFunc(slices.Concat(tt.before.Files, tt.after.Files), func(o configuration.File) bool {
						return o.Path == f.Path && o.Content == have
					}) {
						t.Fatalf("cut at %s: %s holds %q", at, f.Path, have)
					}
				}
				begun, committed := a.journal.pending != nil, a.journal.applied != nil && a.journal.pending != nil && a.journal.applied.Digest == a.journal.pending.Digest
				restarts := countOf(w.orders, "restart libvirtd.service")
				if tt.power {
					for name, u := range w.units { // started at boot, before the agent
						if w.conf = tt.after; u.Active != service.Inactive {
							u.Active = service.Inactive
						}
						if _, ok := serviceOf(tt.after, name); !ok {
							w.conf = tt.before
						}
						if u.Enabled {
							w.begin(name)
						}
					}
					if err := os.Remove(w.path("run.json")); err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
				}
				a = w.applier()
				want, old := tt.after, tt.before
				if tt.away {
					if a.journal.pending != nil && a.journal.pending.Network && !committed || !begun {
						want, old = tt.before, tt.after
					}
				} else {
					a.want(encode(t, tt.after))
				}
				w.conf = want
				w.step(a)
				w.step(a)
				if len(want.Files) == 0 {
					if a.journal.applied != nil {
						t.Fatalf("cut at %s: something was applied", at)
					}
					continue
				}
				if err := w.holds(a, want, old); err != nil {
					t.Fatalf("cut at %s: %v\n%v", at, err, w.orders)
				}
				if got := countOf(w.orders, "restart libvirtd.service"); !tt.power && got != restarts {
					t.Errorf("cut at %s: a service whose files did not change was restarted", at)
				}
			}
			if cuts < 15 {
				t.Errorf("only %d cuts", cuts)
			}
		})
	}
}

func countOf(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.conf = before()
	a := w.applier()
	a.want(encode(t, before()))
	w.step(a)
	w.took()
	for _, tt := range []struct {
		name   string
		do     func()
		orders string
		says   string
	}{
		{"content", func() { w.write("/etc/nova/nova.conf", "debug=9", 0o640) }, "", "/etc/nova/nova.conf was changed"},
		{"removed", func() { _ = os.Remove(w.path("/etc/a/same.conf")) }, "", "/etc/a/same.conf was removed"},
		{"mode", func() { _ = os.Chmod(w.path("/etc/gone.conf"), 0o666) }, "", "/etc/gone.conf was given mode 0666"},
		{"link", func() {
			_ = os.Remove(w.path("/etc/gone.conf"))
			_ = os.Symlink("/etc/passwd", w.path("/etc/gone.conf"))
		}, "", "no longer a regular file"},
		{"unit", func() { w.write(units+"nova-compute.service", "other", 0o640) }, "reload-units", "nova-compute.service was changed"},
		{"stopped", func() { w.unit("libvirtd.service").Active = service.Inactive }, "start libvirtd.service", "libvirtd.service was stopped"},
		{"disabled", func() { w.unit("libvirtd.service").Enabled = false }, "enable libvirtd.service", "libvirtd.service was disabled"},
		{"changed, and its reader restarted", func() {
			w.write("/etc/nova/nova.conf", "debug=9", 0o640)
			// The time of a change of a file is that of the last tick of the kernel's clock.
			changed, err := a.disk.stamp("/etc/nova/nova.conf")
			for err == nil && !changed.changed.Before(time.Now()) {
				continue
			}
			w.begin("nova-compute.service")
		}, "restart nova-compute.service", "nova.conf was changed"},
		{"restarted only", func() { w.begin("nova-compute.service") }, "", ""},
	} {
		w.reports = nil
		tt.do()
		w.step(a)
		if took := w.took(); took != tt.orders {
			t.Errorf("%s: took %q", tt.name, took)
		}
		if err := w.holds(a, before(), configuration.Configuration{}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.says == "" {
			continue
		}
		if first := w.reports[0]; first.Configured || first.Reason != "Drifted" || !strings.Contains(first.Message, tt.says) {
			t.Errorf("%s: %+v", tt.name, first)
		}
		if last := w.last(); !last.Configured || !strings.Contains(last.Message, "repaired at ") || !strings.Contains(last.Message, tt.says) {
			t.Errorf("%s: %+v", tt.name, last)
		}
	}
	if st, err := os.Stat(w.path("/etc/gone.conf")); err != nil || st.Sys().(*syscall.Stat_t).Gid != 64000 {
		t.Errorf("%v %v", st, err)
	}
}

func TestServiceThatFails(t *testing.T) {
	w := newWorld(t)
	w.conf = before()
	w.broken["nova-compute.service"] = true
	a := w.applier()
	a.want(encode(t, before()))
	w.step(a)
	r := w.last()
	if _, digest, err := before().Encode(); err != nil || r.Digest != digest || r.Configured || r.Reason != "ServiceFailed" || !strings.Contains(r.Message, "nova-compute.service is failed: exit status 1: no") {
		t.Errorf("%+v %v", r, err)
	}
	w.took()
	w.step(a)
	if took := w.took(); took != "" {
		t.Errorf("tried again at once: %s", took)
	}
	w.now = w.now.Add(time.Minute)
	w.broken["nova-compute.service"] = false
	w.step(a)
	if err := w.holds(a, before(), configuration.Configuration{}); err != nil || w.took() != "start nova-compute.service" {
		t.Errorf("%v", err)
	}
}

func TestWhatCanNotBeApplied(t *testing.T) {
	w := newWorld(t)
	w.conf = before()
	a := w.applier()
	a.want(encode(t, before()))
	w.step(a)
	w.took()
	stranger := before()
	stranger.Files = slices.Clone(stranger.Files)
	stranger.Files[2].Owner, stranger.Files[2].Content = "glance", "new"
	directory := before()
	directory.Files = slices.Clone(directory.Files)
	directory.Files[2].Content = "new"
	directory.Files = append(directory.Files, file("/usr/dir", ""))
	if err := os.MkdirAll(w.path("/usr/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		encode(t, stranger):                      `ApplyFailed: there is no user "glance"`,
		encode(t, directory):                     "ApplyFailed: /usr/dir is a directory",
		"{":                                      "ConfigurationInvalid: the configuration in the Secret is refused",
		`{"files":[{"path":"../x"}]}`:            "ConfigurationInvalid: ",
		`{"version":2,"files":[],"services":[]}`: "ConfigurationUnknown: the configuration in the Secret is refused, and the last one stays in force: configuration in an unknown format: it has version 2",
		`{"files":[],"services":[],"packages":[]}`: "ConfigurationUnknown: ",
	} {
		a.want(content)
		w.step(a)
		r := w.last()
		if got := r.Reason + ": " + r.Message; r.Configured || !strings.HasPrefix(got, want) {
			t.Errorf("%.80s: %s", content, got)
		}
		if took := w.took(); took != "" || w.content("/etc/nova/nova.conf") != "debug=0" || a.journal.pending != nil {
			t.Errorf("%.80s: something was done: %s", content, took)
		}
		a.want(encode(t, before()))
		w.step(a)
		if err := w.holds(a, before(), configuration.Configuration{}); err != nil {
			t.Errorf("%.80s: %v", content, err)
		}
	}
}

// An unreadable journal is put aside, and the control plane's word is enough.
func TestUnreadableJournal(t *testing.T) {
	w := newWorld(t)
	w.conf = before()
	a := w.applier()
	a.want(encode(t, before()))
	w.step(a)
	w.write("data/configuration/applied.json", `{"digest":"x","content":"{}"}`, 0o600)
	w.write("data/configuration/pending.json", `{"dig`, 0o600)
	a = w.applier()
	a.want(encode(t, before()))
	w.took()
	w.step(a)
	if err := w.holds(a, before(), configuration.Configuration{}); err != nil || w.took() != "" {
		t.Error(err)
	}
	if st, err := os.Stat(w.path("data/configuration/applied.json")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
}

// Run finds what changes by itself.
func TestRun(t *testing.T) {
	w := newWorld(t)
	w.conf = before()
	a := w.applier()
	a.Look = time.Hour // only the kernel tells
	reports := make(chan Report, 100)
	a.Report = func(r Report) { reports <- r }
	wanted := make(chan string, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() { a.Run(ctx, wanted); close(done) }()
	wanted <- encode(t, before())
	see := func(reason string) {
		t.Helper()
		for timeout := time.After(20 * time.Second); ; {
			select {
			case r := <-reports:
				if r.Reason == reason {
					return
				}
			case <-timeout:
				t.Fatalf("no report %s", reason)
			}
		}
	}
	see("Applied")
	w.write("/etc/nova/nova.conf", "debug=7", 0o640)
	see("Drifted")
	see("Applied")
	stop()
	<-done
	if w.content("/etc/nova/nova.conf") != "debug=0" {
		t.Error("not repaired")
	}
}
