package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// entries unpacks a layer: "name type mode link" of each, and the headers by name.
func entries(t *testing.T, layout string, l layer) ([]string, map[string]*tar.Header) {
	t.Helper()
	f, err := os.Open(BlobPath(layout, l.digest))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var lines []string
	headers := map[string]*tar.Header{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %c %04o %s", h.Name, h.Typeflag, h.Mode, h.Linkname)))
		headers[h.Name] = h
	}
}

// makeTree creates a tree of files: a name that ends with / is a folder.
func makeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func keepAll(string) bool { return false }

func TestPack(t *testing.T) {
	layout, root := t.TempDir(), t.TempDir()
	makeTree(t, root, map[string]string{"etc/nova/nova.conf": "x", "etc/nova/api-paste.ini": "x", "usr/bin/sudo": "x", "var/log/a/b": "x", "run/": ""})
	made := time.Now().Add(-time.Hour)
	packaged := time.Unix(1760000000, 500)
	if err := errors.Join(
		os.Chmod(filepath.Join(root, "usr/bin/sudo"), 0o755|os.ModeSetuid),
		os.Symlink("sudo", filepath.Join(root, "usr/bin/link")),
		os.Link(filepath.Join(root, "usr/bin/sudo"), filepath.Join(root, "usr/bin/twin")),
		unix.Mkfifo(filepath.Join(root, "etc/pipe"), 0o600),
		os.Chtimes(filepath.Join(root, "etc/nova/api-paste.ini"), packaged, packaged),
	); err != nil {
		t.Fatal(err)
	}
	dropped := func(p string) bool { return p == "etc/nova/nova.conf" || p == "var/log" }
	l, err := packLayer(layout, root, nil, made, dropped)
	if err != nil {
		t.Fatal(err)
	}
	lines, headers := entries(t, layout, l)
	want := []string{
		"etc/ 5 0755", "etc/nova/ 5 0755", "etc/nova/api-paste.ini 0 0644", "run/ 5 0755", "usr/ 5 0755", "usr/bin/ 5 0755",
		"usr/bin/link 2 0777 sudo", "usr/bin/sudo 0 0755", "usr/bin/twin 1 0755 usr/bin/sudo", "var/ 5 0755",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("layer has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if got := headers["usr/bin/sudo"].ModTime.Unix(); got != sourceDate {
		t.Errorf("time of a file of the build: got %d, want %d", got, sourceDate)
	}
	// A compiled Python file names its source's time.
	if got := headers["etc/nova/api-paste.ini"].ModTime.Unix(); got != packaged.Unix() {
		t.Errorf("time of a package's file: got %d, want %d", got, packaged.Unix())
	}
	again, err := packLayer(layout, root, nil, made, dropped)
	if err != nil || again != l {
		t.Errorf("packed again: %v, %v, want the same layer %v", again, err, l)
	}
}

// A real overlay file system shows how it marks hidden files.
func TestPackWhiteouts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("overlay file systems are mounted by root only")
	}
	work := t.TempDir()
	lower, upper, root := filepath.Join(work, "lower"), filepath.Join(work, "upper"), filepath.Join(work, "root")
	makeTree(t, lower, map[string]string{"a/kept": "x", "a/gone": "x", "b/old": "x", "c/old": "x", "c/deep/": "", "d": "x"})
	makeTree(t, work, map[string]string{"upper/": "", "work/": "", "root/": ""})
	inNamespace(t, func() error {
		options := "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + filepath.Join(work, "work") + ",index=off,metacopy=off,redirect_dir=off"
		if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		return errors.Join(
			os.Remove(filepath.Join(root, "a/gone")),
			os.RemoveAll(filepath.Join(root, "b")),
			// Removed and created again: its former content stays hidden.
			os.RemoveAll(filepath.Join(root, "c")), os.Mkdir(filepath.Join(root, "c"), 0o755), os.WriteFile(filepath.Join(root, "c/new"), nil, 0o644),
			os.Mkdir(filepath.Join(root, "fresh"), 0o755),
			os.Remove(filepath.Join(root, "d")), os.Mkdir(filepath.Join(root, "d"), 0o755),
			unix.Unmount(root, 0),
		)
	})
	layout := t.TempDir()
	l, err := packLayer(layout, upper, []string{lower}, time.Now().Add(-time.Hour), keepAll)
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := entries(t, layout, l)
	want := []string{
		"a/ 5 0755", "a/.wh.gone 0 0644", ".wh.b 0 0644", "c/ 5 0755", "c/.wh..wh..opq 0 0644", "c/new 0 0644", "d/ 5 0755", "d/.wh..wh..opq 0 0644",
		"fresh/ 5 0755",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("layer has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// inNamespace calls f in a mount namespace of its own.
func inNamespace(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		// The thread ends with the goroutine, and its namespace with it.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
