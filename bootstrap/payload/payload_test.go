package payload

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
)

// content returns the content of a piece in the test's payload.
func content(name string) string { return "this is " + name }

// build creates a payload's files as the pack program would.
func build(t *testing.T, change func(*Manifest, fstest.MapFS)) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{"README": {Data: []byte("always there")}}
	var m Manifest
	for _, name := range required {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content(name)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files[name+".zst"] = &fstest.MapFile{Data: b.Bytes()}
		m.Pieces = append(m.Pieces, Piece{
			Name: name, Size: int64(len(content(name))), SHA256: digest([]byte(content(name))),
			Host: name != RegiondNode && name != RegiondInit, Executable: name != Images,
		})
	}
	if change != nil {
		change(&m, files)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	files["manifest.json"] = &fstest.MapFile{Data: raw}
	return files
}

func mustOpen(t *testing.T, files fstest.MapFS) *Payload {
	t.Helper()
	p, err := open(files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMissing(t *testing.T) {
	if _, err := open(fstest.MapFS{"README": {}}); err == nil || !strings.Contains(err.Error(), "make payload") || !strings.Contains(err.Error(), Runc) {
		t.Errorf("without a payload: got %v, want what is missing and how to build it", err)
	}
	for name, change := range map[string]func(*Manifest, fstest.MapFS){
		"file": func(_ *Manifest, files fstest.MapFS) { delete(files, Runc+".zst") },
		"entry": func(m *Manifest, _ fstest.MapFS) {
			m.Pieces = slices.DeleteFunc(m.Pieces, func(p Piece) bool { return p.Name == Runc })
		},
	} {
		_, err := open(build(t, change))
		if err == nil || !strings.Contains(err.Error(), "lacks "+Runc+";") || !strings.Contains(err.Error(), "make payload") {
			t.Errorf("%s: got %v, want runc missing", name, err)
		}
	}
}

func TestOpen(t *testing.T) {
	p := mustOpen(t, build(t, nil))
	r, err := p.Open(RegiondNode)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil || string(b) != content(RegiondNode) {
		t.Errorf("%q %v", b, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Open("../x"); err == nil {
		t.Error("got no error for an unknown piece")
	}
}

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	p := mustOpen(t, build(t, nil))
	// Left behind by a killed extraction.
	half := filepath.Join(dir, extracting+"123")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	where, err := p.Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(where)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o755)
		if e.Name() == Images {
			want = 0o644
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: got mode %o", e.Name(), info.Mode().Perm())
		}
		if b, err := os.ReadFile(filepath.Join(where, e.Name())); err != nil || string(b) != content(e.Name()) {
			t.Errorf("%s: %q %v", e.Name(), b, err)
		}
	}
	if len(names) != len(required)-2 || slices.Contains(names, RegiondNode) || slices.Contains(names, RegiondInit) {
		t.Errorf("extracted %v", names)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("the partial folder: got %v, want it removed", err)
	}
}

// A running program must not be replaced with an equal one, but a damaged one must be replaced.
func TestExtractAgain(t *testing.T) {
	dir := t.TempDir()
	p := mustOpen(t, build(t, nil))
	where, err := p.Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	runc, shim := filepath.Join(where, Runc), filepath.Join(where, ContainerdShim)
	good, err := os.Stat(runc)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"none": func() error { return nil },
		"content": func() error {
			return os.WriteFile(shim, []byte(strings.Repeat("x", len(content(ContainerdShim)))), 0o755)
		},
		"truncated": func() error { return os.Truncate(shim, 0) },
		"mode":      func() error { return os.Chmod(shim, 0o600) },
		"gone":      func() error { return os.Remove(shim) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		again, err := p.Extract(dir)
		if err != nil || again != where {
			t.Fatalf("%s: %s %v", name, again, err)
		}
		if b, err := os.ReadFile(shim); err != nil || string(b) != content(ContainerdShim) {
			t.Errorf("%s: %q %v", name, b, err)
		}
		if info, err := os.Stat(shim); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: mode %v %v", name, info.Mode(), err)
		}
		if now, err := os.Stat(runc); err != nil || !os.SameFile(good, now) {
			t.Errorf("%s: the undamaged piece was replaced (%v)", name, err)
		}
	}
}

func TestVersionsSideBySide(t *testing.T) {
	dir := t.TempDir()
	one, err := mustOpen(t, build(t, nil)).Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := mustOpen(t, build(t, func(m *Manifest, _ fstest.MapFS) { slices.Reverse(m.Pieces) })).Extract(dir)
	if err != nil || one == two {
		t.Fatalf("%s %s %v", one, two, err)
	}
	if _, err := os.Stat(filepath.Join(one, Runc)); err != nil {
		t.Errorf("the other version's shims have lost their runtime: %v", err)
	}
}

func TestExtractChecks(t *testing.T) {
	dir := t.TempDir()
	p := mustOpen(t, build(t, func(m *Manifest, _ fstest.MapFS) { m.Pieces[0].SHA256 = digest([]byte("other")) }))
	if _, err := p.Extract(dir); err == nil || !strings.Contains(err.Error(), ContainerdShim) {
		t.Errorf("got %v, want the digests", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("got %v left, %v; want nothing", left, err)
	}
}
