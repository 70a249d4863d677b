//go:build integration

package backup_test

import (
	"bytes"
	"crypto/rand"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"regiond.dev/regiond/bootstrap/backup"
)

var gateway = flag.String("s3", "", "path of versitygw, an S3-compatible store; scripts/build-s3 makes it")

// s3 starts a store with a bucket and returns its configuration.
func s3(t *testing.T) backup.S3Config {
	t.Helper()
	if *gateway == "" {
		t.Fatal("-s3 is not set; run: make integration")
	}
	dir := t.TempDir()
	for _, d := range []string{"data/backups", "sidecar"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := exec.Command(*gateway, "--port", address, "--region", "eu-1", "posix", "--sidecar", filepath.Join(dir, "sidecar"), filepath.Join(dir, "data"))
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY=regiond", "ROOT_SECRET_KEY=the-secret-key")
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	})
	deadline := time.After(time.Minute)
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
		select {
		case <-deadline:
			t.Fatalf("the store does not listen on %s: %s", address, said.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	key := filepath.Join(dir, "key.yaml")
	if err := os.WriteFile(key, []byte("accessKeyID: regiond\nsecretAccessKey: the-secret-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return backup.S3Config{Endpoint: "http://" + address, Bucket: "backups", Prefix: "regiond/north-1", Region: "eu-1", KeyFile: key}
}

// A backup of several parts goes to a store that checks signatures, is listed, verified and removed.
func TestS3(t *testing.T) {
	c := s3(t)
	store, err := backup.NewS3(c)
	if err != nil {
		t.Fatal(err)
	}
	id, all := key(t), rooms()
	noise := make([]byte, 70<<20) // more than one part
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	all[0].files["big"] = string(noise)
	result, err := backup.Create(t.Context(), backup.CreateConfig{Manifest: manifest(), Recipients: []age.Recipient{id.Recipient()},
		Sources: sources(all), Staging: filepath.Join(t.TempDir(), "s"), Store: store})
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 || list[0] != result.Stored {
		t.Fatalf("listed %+v, %v; want %+v", list, err, result.Stored)
	}
	f, err := store.Open(t.Context(), result.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Verify(t.Context(), f, nil, id); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := store.Remove(t.Context(), result.Name); err != nil {
		t.Error(err)
	}
	if list, err := store.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after it was removed: listed %+v, %v", list, err)
	}
	if _, err := store.Open(t.Context(), result.Name); err == nil || !strings.Contains(err.Error(), result.Name) {
		t.Errorf("a missing backup: got %v, want an error that names it", err)
	}
}

// An upload that is discarded leaves no object.
func TestS3Discard(t *testing.T) {
	store, err := backup.NewS3(s3(t))
	if err != nil {
		t.Fatal(err)
	}
	u, err := store.Create(t.Context(), backup.FileName(manifest()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(u, rand.Reader, 70<<20); err != nil {
		t.Fatal(err)
	}
	if err := u.Discard(); err != nil {
		t.Fatal(err)
	}
	if list, err := store.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v; want nothing", list, err)
	}
}

// What regiond left when it was killed is removed a day later; what is not a backup's, or is being written, stays.
func TestS3Leftovers(t *testing.T) {
	c := s3(t)
	store, err := backup.NewS3(c)
	if err != nil {
		t.Fatal(err)
	}
	core, err := minio.NewCore(strings.TrimPrefix(c.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4("regiond", "the-secret-key", ""), Region: c.Region})
	if err != nil {
		t.Fatal(err)
	}
	own, other := c.Prefix+"/"+backup.FileName(manifest()), c.Prefix+"/photo.jpg"
	for _, key := range []string{own, other} {
		if _, err := core.NewMultipartUpload(t.Context(), c.Bucket, key, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (keys []string) {
		for u := range core.ListIncompleteUploads(t.Context(), c.Bucket, c.Prefix+"/", true) {
			if u.Err != nil {
				t.Fatal(u.Err)
			}
			keys = append(keys, u.Key)
		}
		slices.Sort(keys)
		return keys
	}
	u, err := store.Create(t.Context(), "next")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Discard(); err != nil {
		t.Fatal(err)
	}
	if got, want := left(), []string{own, other}; !slices.Equal(got, want) {
		t.Errorf("younger than a day: got %q left, want %q", got, want)
	}
	if err := store.RemoveLeftovers(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, want := left(), []string{other}; !slices.Equal(got, want) {
		t.Errorf("older: got %q left, want %q", got, want)
	}
}

func TestS3Refusals(t *testing.T) {
	good := s3(t)
	for want, spoil := range map[string]func(*backup.S3Config){
		"may be read by others": func(c *backup.S3Config) {
			c.KeyFile = filepath.Join(t.TempDir(), "open.yaml")
			if err := os.WriteFile(c.KeyFile, []byte("accessKeyID: a\nsecretAccessKey: hidden\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"is not YAML with the keys accessKeyID": func(c *backup.S3Config) {
			c.KeyFile = filepath.Join(t.TempDir(), "other.yaml")
			if err := os.WriteFile(c.KeyFile, []byte("hidden: hidden\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"ignature": func(c *backup.S3Config) {
			c.KeyFile = filepath.Join(t.TempDir(), "wrong.yaml")
			if err := os.WriteFile(c.KeyFile, []byte("accessKeyID: regiond\nsecretAccessKey: hidden\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"bucket missing-bucket": func(c *backup.S3Config) { c.Bucket = "missing-bucket" },
	} {
		c := good
		spoil(&c)
		store, err := backup.NewS3(c)
		if err == nil {
			var u backup.Upload
			if u, err = store.Create(t.Context(), backup.FileName(manifest())); err == nil {
				_, err = u.Write([]byte("x"))
				if err == nil {
					err = u.Commit()
				}
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("got %v, want %q and no secret", err, want)
		}
	}
}
