package install_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/bootstrap/install"
)

// host is a fake host: a folder for its files, and a systemd that only records commands.
type host struct {
	t     *testing.T
	root  string
	calls []string
	// state is what systemctl show prints.
	state  string
	report []string
}

func newHost(t *testing.T) *host {
	h := &host{t: t, root: t.TempDir()}
	for _, d := range []string{"usr/local/bin", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(h.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.write("given/regiond", "program v1")
	return h
}

func (h *host) path(p string) string { return filepath.Join(h.root, p) }

func (h *host) write(p, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(p)), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path(p), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) systemctl(_ context.Context, args ...string) (string, error) {
	if args[0] == "show" {
		return h.state, nil
	}
	h.calls = append(h.calls, strings.Join(args, " "))
	return "", nil
}

func (h *host) install(regionYAML string) error {
	h.calls, h.report = nil, nil
	return install.Install(h.t.Context(), install.Config{
		Paths: install.Paths{Program: h.path("usr/local/bin/regiond"), RegionFile: h.path("etc/regiond/region.yaml"),
			Unit: h.path("etc/systemd/system/regiond.service")},
		DataDir: h.path("var/lib/regiond"), Program: h.path("given/regiond"), Region: []byte(regionYAML),
		RegionFile: h.path("given/region.yaml"), Systemctl: h.systemctl,
		Report: func(f string, a ...any) { h.report = append(h.report, fmt.Sprintf(f, a...)) },
	})
}

// files lists the files on the host besides the given ones.
func (h *host) files() []string {
	h.t.Helper()
	var all []string
	err := filepath.WalkDir(h.root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(h.root, p)
		if err == nil && !strings.HasPrefix(rel, "given/") {
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

func (h *host) mustInstall(regionYAML string) {
	h.t.Helper()
	if err := h.install(regionYAML); err != nil {
		h.t.Fatal(err)
	}
}

func TestInstallPutsFilesAndStarts(t *testing.T) {
	h := newHost(t)
	h.mustInstall("region 1")
	want := []string{"etc/regiond/region.yaml", "etc/systemd/system/regiond.service", "usr/local/bin/regiond", "var/lib/regiond/install.json"}
	if got := h.files(); !slices.Equal(got, want) {
		t.Errorf("got the files %q", got)
	}
	if want := []string{"daemon-reload", "enable regiond.service", "start --no-block regiond.service"}; !slices.Equal(h.calls, want) {
		t.Errorf("got the calls %q", h.calls)
	}
	for path, mode := range map[string]os.FileMode{"usr/local/bin/regiond": 0o755, "etc/regiond/region.yaml": 0o600} {
		i, err := os.Stat(h.path(path))
		if err != nil || i.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, i.Mode(), err)
		}
	}
}

func TestSecondInstallDoesOnlyWhatIsMissing(t *testing.T) {
	h := newHost(t)
	h.mustInstall("region 1")
	h.state = "ActiveState=active\nSubState=running\nInvocationID=a\n"
	h.mustInstall("region 1")
	if slices.ContainsFunc(h.calls, func(c string) bool { return strings.Contains(c, "start") }) {
		t.Errorf("nothing changed: got the calls %q, want no restart", h.calls)
	}
	h.write("given/regiond", "program v2")
	h.mustInstall("region 1")
	if !slices.Contains(h.calls, "restart --no-block regiond.service") {
		t.Errorf("the program changed: got the calls %q, want a restart", h.calls)
	}
	if len(h.report) != 2 || !strings.HasPrefix(h.report[0], "wrote ") {
		t.Errorf("got the report %q", h.report)
	}
}

func TestServiceWaitingForRestartIsStartedAtOnce(t *testing.T) {
	h := newHost(t)
	h.mustInstall("region 1")
	h.state = "ActiveState=activating\nSubState=auto-restart\nInvocationID=a\n"
	h.mustInstall("region 1")
	if !slices.Contains(h.calls, "restart --no-block regiond.service") {
		t.Errorf("got the calls %q", h.calls)
	}
}

func TestEditedRegionFileIsNotOverwritten(t *testing.T) {
	h := newHost(t)
	h.mustInstall("region 1")
	h.mustInstall("region 2") // ours and unchanged: replaced
	h.write("etc/regiond/region.yaml", "edited by hand")
	err := h.install("region 3")
	if err == nil || !strings.Contains(err.Error(), "was changed since it was installed") {
		t.Fatalf("got %v", err)
	}
	h.mustInstall("edited by hand") // regiond install -f /etc/regiond/region.yaml
}

func remove(t *testing.T, h *host) install.Removal {
	t.Helper()
	r, err := install.PlanRemoval(h.path("var/lib/regiond"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), h.systemctl); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRemovalLeavesNothing(t *testing.T) {
	h := newHost(t)
	h.mustInstall("region 1")
	remove(t, h)
	if got := h.files(); !slices.Equal(got, []string{"var/lib/regiond/install.json"}) {
		t.Errorf("got %q left", got)
	}
	if _, err := os.Stat(h.path("etc/regiond")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("etc/regiond: got %v, want it removed", err)
	}
	remove(t, h) // repeated: no error
}

func TestRemovalKeepsForeignFiles(t *testing.T) {
	h := newHost(t)
	h.write("usr/local/bin/regiond", "program v1") // someone else's, with the same content as ours
	h.mustInstall("region 1")
	h.write("etc/regiond/region.yaml", "edited by hand")
	h.write("etc/regiond/bmc.yaml", "the operator's")
	r := remove(t, h)
	if len(r.Kept) != 1 || !strings.HasSuffix(r.Kept[0], "region.yaml") {
		t.Errorf("got %q kept", r.Kept)
	}
	want := []string{"etc/regiond/bmc.yaml", "etc/regiond/region.yaml", "usr/local/bin/regiond", "var/lib/regiond/install.json"}
	if got := h.files(); !slices.Equal(got, want) {
		t.Errorf("got %q left", got)
	}
}

func TestNothingInstalledNothingRemoved(t *testing.T) {
	r, err := install.PlanRemoval(t.TempDir())
	if err != nil || r.Unit != "" || r.Files != nil {
		t.Errorf("got %+v, %v; want nothing to remove", r, err)
	}
}

// The installed service gets the applied file; an edited one is kept, and without a service nothing
// is written.
func TestKeepRegionFile(t *testing.T) {
	h := newHost(t)
	keep := func(regionYAML string) error {
		return install.Config{
			Paths: install.Paths{RegionFile: h.path("etc/regiond/region.yaml")}, DataDir: h.path("var/lib/regiond"),
			Region: []byte(regionYAML), RegionFile: h.path("given/region.yaml"), Report: func(string, ...any) {},
		}.KeepRegionFile()
	}
	if err := keep("region 1"); err != nil || len(h.files()) != 0 {
		t.Errorf("without a service: %v, files %q", err, h.files())
	}
	h.mustInstall("region 1")
	for _, content := range []string{"region 2", "region 2", "region 3"} {
		if err := keep(content); err != nil {
			t.Errorf("keep %q: %v", content, err)
		}
		if b, err := os.ReadFile(h.path("etc/regiond/region.yaml")); err != nil || string(b) != content {
			t.Errorf("got %q, %v; want %q", b, err, content)
		}
	}
	h.write("etc/regiond/region.yaml", "edited")
	if err := keep("region 4"); !errors.Is(err, install.ErrEdited) {
		t.Errorf("got %v, want ErrEdited", err)
	}
	h.mustInstall("edited")
}
