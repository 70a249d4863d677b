package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/payload"
)

func programs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "programs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"pause", "coredns", payload.ContainerdShim, payload.Runc, payload.RegiondNode, payload.RegiondInit}, payload.CNIPlugins...) {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), 1000), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func pack(t *testing.T, programs string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "files")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(programs, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestReproducible(t *testing.T) {
	one, two := contents(t, pack(t, programs(t))), contents(t, pack(t, programs(t)))
	if len(one) != len(two) || len(one) != 10 {
		t.Errorf("got %d and %d files, want the same number", len(one), len(two))
	}
	for name, content := range one {
		if !bytes.Equal(content, two[name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	in := programs(t)
	out := pack(t, in)
	old := time.Now().Add(-time.Hour)
	for name := range contents(t, out) {
		if err := os.Chtimes(filepath.Join(out, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	changed := func() []string {
		if err := run(in, out); err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range contents(t, out) {
			if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.ModTime().After(old.Add(time.Minute)) {
				names = append(names, name)
			}
		}
		return names
	}
	if names := changed(); len(names) > 0 {
		t.Errorf("written again: got %v, want nothing", names)
	}
	if err := os.WriteFile(filepath.Join(in, payload.Runc), []byte("new"), 0o755); err != nil {
		t.Fatal(err)
	}
	if names := changed(); len(names) != 2 { // the piece and the manifest
		t.Errorf("written after runc changed: got %v, want the piece and the manifest", names)
	}
}

func TestAgentTooBig(t *testing.T) {
	in := programs(t)
	if err := os.Truncate(filepath.Join(in, payload.RegiondNode), maxAgent+1); err != nil { // a sparse file
		t.Fatal(err)
	}
	if err := run(in, t.TempDir()); err == nil || !strings.Contains(err.Error(), "regiond-node has 30000001 bytes, the limit is 30000000") {
		t.Errorf("got %v, want the size and the limit", err)
	}
}

func TestMissingProgram(t *testing.T) {
	in := programs(t)
	if err := os.Remove(filepath.Join(in, payload.Runc)); err != nil {
		t.Fatal(err)
	}
	if err := run(in, t.TempDir()); err == nil {
		t.Error("got no error without runc")
	}
}
