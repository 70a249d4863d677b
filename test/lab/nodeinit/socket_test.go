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

func TestSocket(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.root, "s")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, path) }()
	eventually(t, "the socket", func() bool { st, err := os.Stat(path); return err == nil && st.Mode().Perm() == 0o600 })
	c := NewClient(path)
	w.unit("a@1.service", "[Service]\nExecStart=/bin/sleep 1000\n")
	w.unit("bad.service", "[Service]\nExecStart=/no/such/program\n")
	w.must(c.Start(t.Context(), "a@1.service"))
	if err := c.Start(t.Context(), "bad.service"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	states, err := c.States(t.Context(), []string{"a@1.service", "bad.service", "none.service"})
	if err != nil || !states["a@1.service"].Runs() || states["bad.service"].Active != service.Failed || !states["none.service"].Missing {
		t.Errorf("%+v %v", states, err)
	}
	if failed, err := c.FailedUnits(t.Context()); err != nil || strings.Join(failed, " ") != "bad.service" {
		t.Errorf("%q %v", failed, err)
	}
	w.must(c.Stop(t.Context(), "a@1.service"))
	stop()
	w.must(<-served)
}

func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := newLogFile(dir, "x.service")
	line := bytes.Repeat([]byte("x"), 1<<20)
	for range 20 {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Write([]byte("\nlast words\n\nha")); err != nil || l.lastLine() != "ha" {
		t.Errorf("%v %q", err, l.lastLine())
	}
	for _, f := range []string{"x.log", "x.log.1"} {
		if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() > maxLog {
			t.Errorf("%s: %v %v", f, st, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v %v", list, err)
	}
}
