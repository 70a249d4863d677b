package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

// world is a host with a service manager that is played.
type world struct {
	t    *testing.T
	root string
	// Of the services: what runs, and what each was started with, in truth.
	units   map[string]*service.State
	truth   map[string]string
	conf    configuration.Configuration // whose services read which files
	orders  []string
	broken  map[string]bool // services that do not start
	n       int
	reach   func() error
	reports []Report
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: t.TempDir(), units: map[string]*service.State{}, truth: map[string]string{}, broken: map[string]bool{},
		reach: func() error { return nil }}
	uid, gid := os.Getuid(), os.Getgid()
	w.write("/etc/passwd", fmt.Sprintf("root:x:%d:%d::/root:/bin/sh\nnova:x:%d:%d::/:/bin/sh\n", uid, gid, 64000, 64000), 0o644)
	w.write("/etc/group", fmt.Sprintf("root:x:%d:\nnova:x:%d:\n", gid, 64000), 0o644)
	return w
}

func (w *world) path(p string) string { return filepath.Join(w.root, p) }

func (w *world) write(p, content string, mode fs.FileMode) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(p)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(p), []byte(content), mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) content(p string) string {
	b, err := os.ReadFile(w.path(p))
	if err != nil {
		return ""
	}
	return string(b)
}

// applier is the agent after a start.
func (w *world) applier() *Applier {
	w.t.Helper()
	a, err := New(Config{Root: w.root, DataDir: w.path("data"), RunFile: w.path("run.json"), Services: w, Image: "image-1", Kernel: "6.12",
		ReloadNetwork: func(context.Context) error { w.orders = append(w.orders, "reload-network"); return nil },
		Reach:         func(context.Context) error { return w.reach() },
		Report:        func(r Report) { w.reports = append(w.reports, r) },
		Probe:         20 * time.Second, Settle: time.Millisecond, Look: 10 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(w.now.Sub(time.Time{})) }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) States(_ context.Context, names []string) (map[string]service.State, error) {
	states := map[string]service.State{}
	for _, n := range names {
		if u := w.units[n]; u != nil {
			states[n] = *u
		} else {
			states[n] = service.State{Name: n, Active: service.Inactive}
		}
	}
	return states, nil
}

func (w *world) unit(name string) *service.State {
	if w.units[name] == nil {
		w.units[name] = &service.State{Name: name, Active: service.Inactive}
	}
	return w.units[name]
}

// begin starts a service with the files that are there.
func (w *world) begin(name string) {
	w.n++
	u := w.unit(name)
	u.Active, u.Invocation, u.Started, u.Message = service.Active, fmt.Sprint("run", w.n), time.Now(), ""
	w.truth[name] = w.reads(name)
}

func (w *world) reads(name string) string {
	s, _ := serviceOf(w.conf, name)
	all := ""
	for _, f := range s.Files {
		all += f + ":" + w.content(f) + "\n"
	}
	return all
}

func (w *world) order(verb, name string) error {
	w.orders = append(w.orders, verb+" "+name)
	if w.broken[name] && verb != "stop" && verb != "enable" && verb != "disable" {
		u := w.unit(name)
		u.Active, u.Message = service.Failed, "exit status 1: no"
		return errors.New("job failed")
	}
	return nil
}

func (w *world) Start(_ context.Context, name string) error {
	if err := w.order("start", name); err != nil {
		return err
	}
	if !w.unit(name).Runs() {
		w.begin(name)
	}
	return nil
}

func (w *world) Stop(_ context.Context, name string) error {
	w.unit(name).Active = service.Inactive
	return w.order("stop", name)
}

func (w *world) Restart(_ context.Context, name string) error {
	if err := w.order("restart", name); err != nil {
		return err
	}
	w.begin(name)
	return nil
}

func (w *world) Reload(_ context.Context, name string) error {
	if err := w.order("reload", name); err != nil {
		return err
	}
	w.truth[name] = w.reads(name)
	return nil
}

func (w *world) Enable(_ context.Context, name string) error {
	w.unit(name).Enabled = true
	return w.order("enable", name)
}

func (w *world) Disable(_ context.Context, name string) error {
	w.unit(name).Enabled = false
	return w.order("disable", name)
}

func (w *world) ReloadUnits(context.Context) error {
	w.orders = append(w.orders, "reload-units")
	return nil
}

// took gives the orders since the last call.
func (w *world) took() string {
	s := strings.Join(w.orders, ", ")
	w.orders = nil
	return s
}

// step lets the agent do what there is to do.
func (w *world) step(a *Applier) {
	w.t.Helper()
	if err := a.step(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) last() Report {
	if len(w.reports) == 0 {
		return Report{}
	}
	return w.reports[len(w.reports)-1]
}

func encode(t *testing.T, c configuration.Configuration) string {
	t.Helper()
	b, _, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func file(path, content string) configuration.File {
	return configuration.File{Path: path, Mode: "0640", Owner: "root", Group: "nova", Content: content}
}

const units = "/etc/systemd/system/"

// before and after are two configurations that differ in everything that can differ.
func before() configuration.Configuration {
	return configuration.Configuration{
		Files: []configuration.File{
			file("/etc/a/same.conf", "same"), file("/etc/gone.conf", "old"), file("/etc/nova/nova.conf", "debug=0"), file("/etc/reloads.conf", "r1"),
			file(units+"gone.service", "u"), file(units+"libvirtd.service", "u"), file(units+"nova-compute.service", "u1"),
		},
		Services: []configuration.Service{
			{Name: "libvirtd.service", Files: []string{"/etc/a/same.conf", units + "libvirtd.service"}},
			{Name: "gone.service", Files: []string{"/etc/gone.conf", units + "gone.service"}},
			{Name: "nova-compute.service", Files: []string{"/etc/nova/nova.conf", units + "nova-compute.service"}},
			{Name: "reloads.service", Files: []string{"/etc/reloads.conf"}, Reload: true},
			{Name: "once.service", Oneshot: true},
		},
	}
}

func after() configuration.Configuration {
	return configuration.Configuration{
		Files: []configuration.File{
			file("/etc/a/same.conf", "same"), file("/etc/new/dir/new.conf", "n"), file("/etc/nova/nova.conf", "debug=1"), file("/etc/reloads.conf", "r2"),
			file(units+"libvirtd.service", "u"), file(units+"nova-compute.service", "u2"),
		},
		Services: []configuration.Service{
			{Name: "libvirtd.service", Files: []string{"/etc/a/same.conf", units + "libvirtd.service"}},
			{Name: "new.service", Files: []string{"/etc/new/dir/new.conf"}},
			{Name: "nova-compute.service", Files: []string{"/etc/nova/nova.conf", units + "nova-compute.service"}},
			{Name: "reloads.service", Files: []string{"/etc/reloads.conf"}, Reload: true},
			{Name: "once.service", Oneshot: true},
		},
	}
}

// holds checks that the host is what a configuration says, in truth and in what it attests.
func (w *world) holds(a *Applier, want configuration.Configuration, old configuration.Configuration) error {
	for _, f := range want.Files {
		st, err := os.Stat(w.path(f.Path))
		if err != nil || w.content(f.Path) != f.Content || fmt.Sprintf("%04o", st.Mode().Perm()) != f.Mode {
			return fmt.Errorf("%s holds %q (%v, %v), not %q", f.Path, w.content(f.Path), st, err, f.Content)
		}
	}
	for _, f := range old.Files {
		if _, err := os.Stat(w.path(f.Path)); err == nil && !strings.Contains(encode(w.t, want), `"path":"`+f.Path+`"`) {
			return fmt.Errorf("%s is still there", f.Path)
		}
	}
	left := ""
	err := filepath.WalkDir(w.root, func(p string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(p, ".regiond-new") || strings.HasSuffix(p, ".new") || strings.HasSuffix(p, pendingFile) {
			left = p
		}
		return err
	})
	if err != nil || left != "" {
		return fmt.Errorf("%s was left (%v)", left, err)
	}
	for _, s := range old.Services {
		if _, ok := serviceOf(want, s.Name); !ok && (w.unit(s.Name).Active != service.Inactive || w.unit(s.Name).Enabled) {
			return fmt.Errorf("%s was not stopped and disabled: %+v", s.Name, w.unit(s.Name))
		}
	}
	for i, s := range want.Services {
		if !w.unit(s.Name).Runs() || !w.unit(s.Name).Enabled || w.truth[s.Name] != w.reads(s.Name) {
			return fmt.Errorf("%s: %+v, started with %q", s.Name, w.unit(s.Name), w.truth[s.Name])
		}
		if p := w.last().Processes; len(p) != len(want.Services) || p[i].Digest != want.Digest(s) || p[i].Image != "image-1" {
			return fmt.Errorf("%s: the attested digest is not that of its files: %+v", s.Name, p)
		}
	}
	_, digest, err := want.Encode()
	if r := w.last(); err != nil || !r.Configured || r.Reason != "Applied" || r.Digest != digest || r.Applied.IsZero() {
		return fmt.Errorf("report %+v (%v)", r, err)
	}
	if a.journal.applied.Digest != digest {
		return errors.New("another configuration is kept")
	}
	return nil
}
