package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/datadir"
)

// restoration of a backup of rooms to an empty folder.
func restoration(t *testing.T) (backup.RestoreConfig, []*room) {
	t.Helper()
	id, all := key(t), rooms()
	result, store := create(t, id.Recipient(), all)
	c := backup.RestoreConfig{
		Open: func(ctx context.Context) (io.ReadCloser, error) { return store.Open(ctx, result.Name) },
		Name: result.Name, Identities: []age.Identity{id}, DataDir: t.TempDir(),
	}
	if err := datadir.Run.Make(c.DataDir); err != nil { // by the lock
		t.Fatal(err)
	}
	for _, r := range all {
		r.dir = filepath.Join(c.DataDir, r.name)
		c.Restorers = append(c.Restorers, r)
	}
	return c, all
}

// verified manifest of the backup.
func verified(t *testing.T, c backup.RestoreConfig) backup.Manifest {
	t.Helper()
	r, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := backup.Verify(t.Context(), r, nil, c.Identities...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tree is the content of all files below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		name, relErr := filepath.Rel(dir, p)
		out[name] = string(b)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A restore that is killed at any step leaves a folder that regiond does not start on, and that the
// same command makes whole.
func TestKilledInEachStepOfARestore(t *testing.T) {
	c, _ := restoration(t)
	m := verified(t, c)
	var steps []string
	c.Cut = func(step string) error { steps = append(steps, step); return nil }
	if err := backup.Restore(t.Context(), c, m); err != nil {
		t.Fatal(err)
	}
	want := tree(t, c.DataDir)
	if want["pki/b/c"] != "key" || want["region.json"] == "" || len(want) != 5 {
		t.Fatalf("restored %v", slices.Sorted(maps.Keys(want)))
	}
	if len(steps) != 12 {
		t.Errorf("got steps %q, want 12", steps)
	}
	killed := errors.New("killed")
	for _, at := range steps {
		t.Run(at, func(t *testing.T) {
			c, _ := restoration(t)
			m := verified(t, c)
			c.Cut = func(step string) error {
				if step == at {
					return killed
				}
				return nil
			}
			if err := backup.Restore(t.Context(), c, m); !errors.Is(err, killed) {
				t.Fatalf("got %v, want that it was killed", err)
			}
			if at != "mark" {
				if err := datadir.CheckRestored(c.DataDir); err == nil || !strings.Contains(err.Error(), "has not ended") {
					t.Errorf("killed at %s: got %v, want that regiond does not start there", at, err)
				}
				if ours, err := datadir.IsOurs(c.DataDir); !ours || err != nil {
					t.Errorf("killed at %s: reset does not know the folder: %t, %v", at, ours, err)
				}
			}
			c.Cut = nil
			if err := backup.Restore(t.Context(), c, m); err != nil {
				t.Fatal(err)
			}
			if got := tree(t, c.DataDir); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
			if err := datadir.CheckRestored(c.DataDir); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRestoreIsToAnEmptyFolder(t *testing.T) {
	const mark = `{"region":"tokyo","uid":"0a1b2c3d-0000-4000-8000-000000000009"}`
	for name, c := range map[string]struct {
		files []string // each a name, and its content after a space
		want  string   // empty: accepted
	}{
		"nothing":       {nil, ""},
		"early log":     {[]string{"log/regiond.log", "run/regiond.lock", "lost+found/x"}, ""},
		"a live region": {[]string{"region.json " + mark, "pki/ca.crt", "etcd/member"}, "it holds the region tokyo"},
		"others' files": {[]string{"notes.txt"}, "notes.txt"},
		"only its etcd": {[]string{"etcd/x"}, "run `regiond reset` first"},
		"a cut one":     {[]string{"restore.json " + mark, "pki/ca.crt"}, ""},
		"others' mark":  {[]string{"restore.json {}", "pki/ca.crt"}, "region and uid are required"},
	} {
		t.Run(name, func(t *testing.T) {
			config, _ := restoration(t)
			m := verified(t, config)
			for _, f := range c.files {
				f, text, _ := strings.Cut(f, " ")
				path := filepath.Join(config.DataDir, f)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, config.DataDir)
			err := backup.Restore(t.Context(), config, m)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if after := tree(t, config.DataDir); !maps.Equal(before, after) {
				t.Errorf("got files %v, want them as they were: %v", after, before)
			}
		})
	}
}

// What no restorer knows is refused before anything is changed.
func TestUnknownEntries(t *testing.T) {
	c, all := restoration(t)
	c.Restorers = []backup.Restorer{all[0]}
	if err := backup.Restore(t.Context(), c, verified(t, c)); err == nil || !strings.Contains(err.Error(), "pki/a: this regiond can't restore it") {
		t.Errorf("got %v, want that pki can't be restored", err)
	}
}

// Restorers are values with functions, too, which Go can't compare. Each is told once.
func TestRestorersAreToldOnce(t *testing.T) {
	c, all := restoration(t)
	for i, r := range all {
		c.Restorers[i] = backup.HostFiles{As: r.name, Root: c.DataDir, Kept: func(string) {}}
	}
	var told []string
	c.Progress = func(text string) { told = append(told, text) }
	if err := backup.Restore(t.Context(), c, verified(t, c)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"restoring openstack", "restoring pki"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A backup that was replaced after it was shown is not restored.
func TestReplacedBackup(t *testing.T) {
	c, _ := restoration(t)
	m := verified(t, c)
	m.Entries = slices.Clone(m.Entries)
	m.Entries[0].SHA256 = fmt.Sprintf("%064x", 1)
	if err := backup.Restore(t.Context(), c, m); err == nil || !strings.Contains(err.Error(), "was replaced meanwhile") {
		t.Errorf("got %v, want that it was replaced", err)
	}
}

func TestFolder(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "pki")
	for name, text := range map[string]string{"ca.key": "1", "etcd/ca.key": "2", ".ca.crt.new-12": "half"} {
		path := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	restored := backup.Folder{As: "pki", Path: to}
	err := backup.Folder{As: "pki", Path: from}.Backup(t.Context(), func(name string, content io.Reader) error {
		return restored.Restore(t.Context(), name, content)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, to), map[string]string{"ca.key": "1", "etcd/ca.key": "2"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	if err := (backup.Folder{As: "pki", Path: from}).Backup(t.Context(), func(string, io.Reader) error { return nil }); err == nil {
		t.Error("a link was backed up, want a refusal")
	}
}

// Files of the host come back where they are missing; others stay.
func TestHostFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	for _, name := range []string{"region.yaml", "credentials/rack.yaml", "other.yaml", "missing.yaml", "credentials/rack.yaml"} {
		paths = append(paths, filepath.Join(from, name))
		if name != "missing.yaml" {
			write(filepath.Join(from, name), "of the backup: "+name)
		}
	}
	write(filepath.Join(to, from, "other.yaml"), "of this host")
	var kept []string
	h := backup.HostFiles{As: "host", Paths: paths, Root: to, Kept: func(p string) { kept = append(kept, p) }}
	var names []string
	for range 2 { // a restore is repeated
		names, kept = nil, nil
		err := h.Backup(t.Context(), func(name string, content io.Reader) error {
			names = append(names, h.As+"/"+name)
			return h.Restore(t.Context(), name, content)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// Two of the region's credentials may be in one file, which is one entry: two make no backup.
	if len(names) != 3 || names[0] != h.Entry(paths[0]) {
		t.Errorf("got entries %q, want three, the first one %q", names, h.Entry(paths[0]))
	}
	got := tree(t, filepath.Join(to, from))
	want := map[string]string{"region.yaml": "of the backup: region.yaml", "credentials/rack.yaml": "of the backup: credentials/rack.yaml", "other.yaml": "of this host"}
	if !maps.Equal(got, want) || len(kept) != 1 || !strings.HasSuffix(kept[0], "other.yaml") {
		t.Errorf("got %v, kept %q; want %v", got, kept, want)
	}
}
