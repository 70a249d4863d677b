package nodeinit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/node/service"
)

// The agent's own service manager, against process 1.
func TestAgentManagesServices(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.root, "s")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, path) }()
	eventually(t, "the socket", func() bool { st, err := os.Stat(path); return err == nil && st.Mode().Perm() == 0o600 })
	run := func(ctx context.Context, name string, args ...string) ([]byte, error) {
		var out bytes.Buffer
		err := command(ctx, node{client: newClient(path), logDir: filepath.Join(w.root, "var/log"), out: &out}, name, args)
		return out.Bytes(), err
	}
	s := service.Systemd{Run: run}

	w.unit("a@1.service", "[Service]\nExecStart=/bin/sleep 1000\nExecReload=/bin/sh -c 'echo reload > "+w.root+"/reloaded'\n")
	w.unit("bad.service", "[Service]\nExecStart=/no/such/program\n")
	w.unit("ends.service", "[Service]\nExecStart=/bin/sh -c 'echo first; echo no such database; echo; exit 3'\n")
	w.unit("late.service", "[Service]\nType=notify\nTimeoutStartSec=100ms\nExecStart=/bin/sleep 1000\n")
	w.must(s.Enable(t.Context(), "a@1.service"))
	w.must(s.Start(t.Context(), "a@1.service"))
	w.must(s.Start(t.Context(), "ends.service"))
	for name, want := range map[string]string{"bad.service": "no such file", "late.service": "not within 100ms", "none.service": "none.service"} {
		if err := s.Start(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("start of %s: got %v, want an error with %q", name, err, want)
		}
	}
	eventually(t, "the end", func() bool { return w.state("ends.service").Active == service.Failed })

	names := []string{"a@1.service", "bad.service", "ends.service", "late.service", "none.service"}
	states, err := s.States(t.Context(), names)
	w.must(err)
	got := states["a@1.service"]
	want := w.state("a@1.service").State
	want.Started = want.Started.Truncate(1e9)
	if !got.Started.Equal(want.Started) {
		t.Errorf("started: got %s, want %s", got.Started, want.Started)
	}
	if got.Started = want.Started; got != want || !got.Runs() || got.PID == 0 || got.Invocation == "" || !got.Enabled {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, want := range map[string]string{
		"bad.service":  "resources: does not start: /no/such/program: no such file or directory",
		"ends.service": "exit-code, exit status 3: no such database",
		"late.service": "timeout: does not start: not ready: not within 100ms",
	} {
		if got := states[name]; got.Active != service.Failed || got.Message != want {
			t.Errorf("%s: got %s, %q; want failed, %q", name, got.Active, got.Message, want)
		}
	}
	if got := states["none.service"]; !got.Missing || got.Active != service.Inactive {
		t.Errorf("a unit that is not there: got %+v", got)
	}
	out, err := run(t.Context(), "systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager")
	if err != nil || !strings.Contains(string(out), "bad.service loaded failed") || strings.Contains(string(out), "a@1.service") {
		t.Errorf("failed units: got %q, %v", out, err)
	}

	w.must(s.Reload(t.Context(), "a@1.service"))
	eventually(t, "the reload", func() bool { return w.file("reloaded") == "reload" })
	w.must(s.Restart(t.Context(), "a@1.service"))
	if again := w.state("a@1.service"); again.PID == got.PID || !again.Runs() {
		t.Errorf("not restarted: %+v", again)
	}
	w.must(s.ReloadUnits(t.Context()))
	w.must(s.Disable(t.Context(), "a@1.service"))
	w.must(s.Stop(t.Context(), "a@1.service"))
	if now := w.state("a@1.service"); now.Active != service.Inactive {
		t.Errorf("not stopped: %+v", now)
	}
	if _, err := run(t.Context(), "networkctl", "reload"); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{"systemctl"}, {"systemctl", "isolate", "x.target"}, {"journalctl"}, {"journalctl", "--unit=a@1.service", "--lines=x"},
		{"networkctl", "up", "eth0"}, {"loginctl"}} {
		if out, err := run(t.Context(), bad[0], bad[1:]...); err == nil {
			t.Errorf("%q: got %q, want an error", bad, out)
		}
	}
	stop()
	w.must(<-served)
}

// What runs in a node finds the commands by their names.
func TestCommandsCallProcess1(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	if err := writeCommands(dir, []string{"/bin/echo", "lab", "node-command"}); err != nil {
		t.Fatal(err)
	}
	for name := range commands {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if want := "#!/bin/sh\nexec /bin/echo lab node-command " + name + ` "$@"` + "\n"; err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v; want %q", name, b, err, want)
		}
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}
