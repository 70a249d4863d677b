package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"regiond.dev/regiond/bootstrap/backup"
)

// room is a source and a restorer with files in memory.
type room struct {
	name     string
	files    map[string]string
	dir      string // where they are restored to
	finished int
	fail     error
}

func (r *room) Name() string { return r.name }

func (r *room) Backup(_ context.Context, add func(string, io.Reader) error) error {
	for _, name := range []string{"a", "b/c", "big"} {
		if text, ok := r.files[name]; ok {
			if err := add(name, strings.NewReader(text)); err != nil {
				return err
			}
		}
	}
	return r.fail
}

func (r *room) Restore(_ context.Context, name string, content io.Reader) error {
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return backup.WriteFile(path, content)
}

func (r *room) Finish(context.Context) error { r.finished++; return nil }

var taken = time.Date(2026, 12, 1, 3, 45, 0, 0, time.UTC)

func manifest() backup.Manifest {
	return backup.Manifest{Region: "north-1", UID: uuid.MustParse("0a1b2c3d-0000-4000-8000-000000000001"), Host: "seed", Address: "10.10.0.2", Version: "v1", Time: taken}
}

func key(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func rooms() []*room {
	return []*room{
		{name: "openstack", files: map[string]string{"a": "databases", "big": strings.Repeat("0123456789abcdef", 40_000)}},
		{name: "pki", files: map[string]string{"a": "", "b/c": "key"}},
		{name: "etcd", files: map[string]string{}},
		{name: "journal.db", files: map[string]string{}},
	}
}

func sources(all []*room) (out []backup.Source) {
	for _, r := range all {
		out = append(out, r)
	}
	return out
}

// create a backup in a folder and return it with the store.
func create(t *testing.T, to age.Recipient, all []*room) (*backup.Result, backup.Directory) {
	t.Helper()
	store := backup.Directory(filepath.Join(t.TempDir(), "backups"))
	c := backup.CreateConfig{Manifest: manifest(), Recipients: []age.Recipient{to}, Sources: sources(all), Staging: filepath.Join(t.TempDir(), "staging"), Store: store}
	result, err := backup.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.Staging); err != nil || len(left) > 0 {
		t.Errorf("left in the staging folder: %v, %v", left, err)
	}
	return result, store
}

func TestRoundTrip(t *testing.T) {
	id, all := key(t), rooms()
	result, store := create(t, id.Recipient(), all)
	if want := "north-1-0a1b2c3d-20261201T034500Z.tar.zst.age"; result.Name != want {
		t.Errorf("got name %s, want %s", result.Name, want)
	}
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 || list[0] != result.Stored {
		t.Fatalf("listed %+v, %v; want %+v", list, err, result.Stored)
	}
	f, err := store.Open(t.Context(), result.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := backup.Open(f, id)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Manifest.Region != "north-1" || !b.Manifest.Time.Equal(taken) || len(b.Manifest.Entries) != 4 {
		t.Errorf("got manifest %+v", b.Manifest)
	}
	got := map[string]string{}
	err = b.Each(t.Context(), func(e backup.Entry, content io.Reader) error {
		text, err := io.ReadAll(content)
		got[e.Name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"openstack/a": "databases", "openstack/big": all[0].files["big"], "pki/a": "", "pki/b/c": "key"}
	if !maps.Equal(got, want) {
		t.Errorf("got entries %v", got)
	}
	if info, err := os.Stat(filepath.Join(string(store), result.Name)); err != nil || info.Mode() != 0o600 || info.Size() != result.Size {
		t.Errorf("file: %v, %v; want mode 0600 and %d bytes", info, err, result.Size)
	}
}

// A source that fails, or a file that changes while it is read, leaves nothing in the store.
func TestFailedBackupLeavesNothing(t *testing.T) {
	id := key(t)
	for name, spoil := range map[string]func(*room){
		"source fails":         func(r *room) { r.fail = errors.New("the database is down") },
		"name leads elsewhere": func(r *room) { r.files["b/c"], r.name = "x", "etcd/.." },
	} {
		t.Run(name, func(t *testing.T) {
			all := rooms()
			spoil(all[2])
			store := backup.Directory(t.TempDir())
			_, err := backup.Create(t.Context(), backup.CreateConfig{Manifest: manifest(), Recipients: []age.Recipient{id.Recipient()},
				Sources: sources(all), Staging: filepath.Join(t.TempDir(), "s"), Store: store})
			if err == nil {
				t.Error("got a backup, want an error")
			}
			if left, err := os.ReadDir(string(store)); err != nil || len(left) > 0 {
				t.Errorf("left in the store: %v, %v", left, err)
			}
		})
	}
}

// What the table of the data directory says that a backup needs has a source.
func TestMissing(t *testing.T) {
	if got := backup.Missing(sources(rooms())); len(got) > 0 {
		t.Errorf("got %q missing, want nothing", got)
	}
	if got := fmt.Sprint(backup.Missing(sources(rooms()[1:]))); got != "[openstack]" {
		t.Errorf("got %s missing, want [openstack]", got)
	}
}

func content(t *testing.T, store backup.Directory, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(string(store), name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWrongKey(t *testing.T) {
	result, store := create(t, key(t).Recipient(), rooms())
	_, err := backup.Verify(t.Context(), bytes.NewReader(content(t, store, result.Name)), nil, key(t))
	if !errors.Is(err, backup.ErrWrongKey) || errors.Is(err, backup.ErrDamaged) {
		t.Errorf("got %v, want that the key is wrong", err)
	}
}

// A backup that is cut off anywhere, or has one other byte, is refused.
func TestDamageOfTheFile(t *testing.T) {
	id := key(t)
	result, store := create(t, id.Recipient(), rooms())
	good := content(t, store, result.Name)
	for at := 0; at < len(good); at += max(len(good)/50, 1) {
		if _, err := backup.Verify(t.Context(), bytes.NewReader(good[:at]), nil, id); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("cut off after %d of %d bytes: got %v, want that it is damaged", at, len(good), err)
		}
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if _, err := backup.Verify(t.Context(), bytes.NewReader(bad), nil, id); err == nil {
			t.Errorf("byte %d of %d changed: got no error", at, len(good))
		}
	}
	if _, err := backup.Verify(t.Context(), bytes.NewReader(append(bytes.Clone(good), "more"...)), nil, id); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("longer: got %v, want that it is damaged", err)
	}
	if _, err := backup.Verify(t.Context(), bytes.NewReader(good), nil, id); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// rewrite opens a backup and makes another of its members, as someone with the public key can.
func rewrite(t *testing.T, good []byte, id *age.X25519Identity, change func(i int, h *tar.Header, content []byte) []byte) []byte {
	t.Helper()
	sealed, err := age.Decrypt(bytes.NewReader(good), id)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := zstd.NewReader(sealed)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	var out bytes.Buffer
	to, err := age.Encrypt(&out, id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	w, r := tar.NewWriter(z), tar.NewReader(packed)
	for i := 0; ; i++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if text = change(i, h, text); text == nil {
			continue
		}
		h.Size = int64(len(text))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{w, z, to} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// Each entry is proved by itself, below the encryption: damage on the way into the backup counts too.
func TestDamageOfEachEntry(t *testing.T) {
	id := key(t)
	result, store := create(t, id.Recipient(), rooms())
	good := content(t, store, result.Name)
	for i := 1; i <= len(result.Manifest.Entries); i++ {
		for what, change := range map[string]func(h *tar.Header, b []byte) []byte{
			"changed": func(_ *tar.Header, b []byte) []byte {
				if len(b) == 0 {
					return []byte("x")
				}
				b[len(b)/2]++
				return b
			},
			"longer":  func(_ *tar.Header, b []byte) []byte { return append(b, 'x') },
			"missing": func(*tar.Header, []byte) []byte { return nil },
			"renamed": func(h *tar.Header, b []byte) []byte { h.Name += "x"; return b },
		} {
			bad := rewrite(t, good, id, func(n int, h *tar.Header, b []byte) []byte {
				if n == i {
					return change(h, b)
				}
				return b
			})
			_, err := backup.Verify(t.Context(), bytes.NewReader(bad), nil, id)
			if name := result.Manifest.Entries[i-1].Name; !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %s: got %v, want that %s is damaged", name, what, err, name)
			}
		}
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	id := key(t)
	result, store := create(t, id.Recipient(), rooms())
	good := content(t, store, result.Name)
	for name, c := range map[string]struct {
		change func(m map[string]any)
		want   error
	}{
		"newer format":  {func(m map[string]any) { m["format"] = backup.Format + 1; m["entries"] = "of another form" }, backup.ErrNewer},
		"no format":     {func(m map[string]any) { delete(m, "format") }, backup.ErrDamaged},
		"parent folder": {func(m map[string]any) { m["entries"].([]any)[0].(map[string]any)["name"] = "openstack/../../x" }, backup.ErrDamaged},
		"absolute":      {func(m map[string]any) { m["entries"].([]any)[0].(map[string]any)["name"] = "/etc/passwd" }, backup.ErrDamaged},
		"no source":     {func(m map[string]any) { m["entries"].([]any)[0].(map[string]any)["name"] = "file" }, backup.ErrDamaged},
		"twice":         {func(m map[string]any) { e := m["entries"].([]any); m["entries"] = append(e, e[0]) }, backup.ErrDamaged},
		"one less":      {func(m map[string]any) { e := m["entries"].([]any); m["entries"] = e[:len(e)-1] }, backup.ErrDamaged},
	} {
		bad := rewrite(t, good, id, func(i int, _ *tar.Header, b []byte) []byte {
			if i > 0 {
				return b
			}
			var m map[string]any
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			c.change(m)
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
		if _, err := backup.Verify(t.Context(), bytes.NewReader(bad), nil, id); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestFits(t *testing.T) {
	m := manifest()
	good := backup.Target{Region: "north-1", Address: "10.10.0.2", Host: "seed"}
	if err := m.Fits(good); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for want, spoil := range map[string]func(*backup.Target){
		`backup is of region "north-1", region.yaml names "osaka"`: func(t *backup.Target) { t.Region = "osaka" },
		"Give this host the address 10.10.0.2":                     func(t *backup.Target) { t.Address = "10.10.0.9" },
		"hostnamectl set-hostname seed":                            func(t *backup.Target) { t.Host = "other" },
	} {
		bad := good
		spoil(&bad)
		if err := m.Fits(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", bad, err, want)
		}
	}
}
