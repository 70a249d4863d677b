package images

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/diskimage"
)

// fakeImage puts a valid image into an images folder.
func fakeImage(t *testing.T, dir, version string, built time.Time) string {
	t.Helper()
	path := filepath.Join(dir, nodeDir, version)
	if err := writeFile(path, InitramfsFile, []byte("initramfs"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &diskimage.Manifest{Version: version, KernelRelease: "6.12-test"}
	for _, label := range []string{diskimage.LabelESP, diskimage.LabelRootA, diskimage.LabelData} {
		content := bytes.Repeat([]byte(label), 1000)
		chunks, err := diskimage.Split(t.Context(), bytes.NewReader(content), 2*diskimage.MiB, filepath.Join(path, diskimage.ChunkDir))
		if err != nil {
			t.Fatal(err)
		}
		m.Partitions = append(m.Partitions, diskimage.Partition{Label: label, Size: 2 * diskimage.MiB, Chunks: chunks})
	}
	if err := diskimage.WriteManifest(path, m); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(path, diskimage.ManifestFile), built, built); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestListAndRemove(t *testing.T) {
	dir := t.TempDir()
	if list, err := List(dir); len(list) != 0 || err != nil {
		t.Fatalf("list of an empty folder: got %v, error %v", list, err)
	}
	if _, err := Current(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "regiond image build") {
		t.Errorf("got error %v, want one that says how to build an image", err)
	}
	now := time.Date(2025, 11, 29, 12, 0, 0, 0, time.UTC)
	fakeImage(t, dir, "trixie-old", now.Add(-time.Hour))
	newest := fakeImage(t, dir, "trixie-new", now)
	if err := makeCurrent(dir, "trixie-old"); err != nil {
		t.Fatal(err)
	}
	if err := makeCurrent(dir, "trixie-new"); err != nil {
		t.Fatal(err)
	}
	if path, err := Current(dir); path != newest || err != nil {
		t.Errorf("current is %q, %v; want %q", path, err, newest)
	}
	// A folder that is not an image is named and does not hide the others.
	if err := os.MkdirAll(filepath.Join(dir, nodeDir, "trixie-broken"), 0o755); err != nil {
		t.Fatal(err)
	}
	list, err := List(dir)
	if err == nil || !strings.Contains(err.Error(), "trixie-broken") {
		t.Errorf("got error %v, want one that names the broken image", err)
	}
	if len(list) != 2 || list[0].Version != "trixie-new" || !list[0].Current || list[1].Current || !list[0].Built.Equal(now) {
		t.Fatalf("list %+v, want trixie-new, the current one, and trixie-old", list)
	}
	// esp, root-a, root-b, data of 2 MiB, 1 MiB before and after.
	if list[0].DiskBytes != 10*diskimage.MiB || list[0].WriteBytes != 3*diskimage.MiB || list[0].TransferBytes == 0 {
		t.Errorf("got the sizes %+v", list[0])
	}

	for version, want := range map[string]string{
		"trixie-new": "current", "trixie-none": "no image", "../node": "not an image's version", "": "not an image's version",
		".rootfs": "not an image's version", "current": "not an image's version",
	} {
		if err := Remove(t.Context(), dir, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("removing %q: error %v lacks %q", version, err, want)
		}
	}
	for _, version := range []string{"trixie-old", "trixie-broken"} {
		if err := Remove(t.Context(), dir, version); err != nil {
			t.Error(err)
		}
	}
	if list, err = List(dir); len(list) != 1 || err != nil {
		t.Errorf("after removing, the list is %+v, %v", list, err)
	}
}

func TestLockWaits(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, dir, cancel); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another build") {
		t.Errorf("cancelled wait: got error %v", err)
	}
	var second sync.WaitGroup
	waiting := make(chan struct{})
	second.Go(func() {
		unlock, err := lock(t.Context(), dir, func() { close(waiting) })
		if err != nil {
			t.Error(err)
			return
		}
		unlock()
	})
	<-waiting
	unlock()
	second.Wait()
}

// staticProgram is the minimum that is accepted as a static program.
func staticProgram(name string) func() (io.ReadCloser, error) {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	for offset, value := range map[int]uint16{16: 2, 18: 62, 20: 1, 52: 64, 54: 56, 58: 64} {
		binary.LittleEndian.PutUint16(header[offset:], value)
	}
	return func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(append(bytes.Clone(header), name...))), nil
	}
}

// cachedBuild prepares an images folder with everything that a build needs.
func cachedBuild(t *testing.T) (c Config, version string) {
	t.Helper()
	c = Config{Dir: t.TempDir(), Release: "trixie", Agent: staticProgram("agent"), Init: staticProgram("init"), Log: slog.New(slog.DiscardHandler)}
	rec := mustRecipe(t)
	key, err := rec.rootfsKey()
	if err != nil {
		t.Fatal(err)
	}
	lock := debian.Lock{"systemd": "999"}
	if err := writeFile(filepath.Join(c.Dir, nodeDir, rootfsDir, key), PackagesFile, []byte(lock.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	agent, err := readProgram("regiond-node", c.Agent)
	if err != nil {
		t.Fatal(err)
	}
	init, err := readProgram("regiond-init", c.Init)
	if err != nil {
		t.Fatal(err)
	}
	if version, err = rec.version(key, lock.String(), programs{agent.sha256, init.sha256}); err != nil {
		t.Fatal(err)
	}
	return c, version
}

func TestBuildReusesImage(t *testing.T) {
	c, version := cachedBuild(t)
	path := fakeImage(t, c.Dir, version, time.Now())
	// What a killed build left behind is removed.
	left := filepath.Join(c.Dir, nodeDir, workPrefix+"123")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	var stages []string
	c.Progress = func(e Event) { stages = append(stages, e.Stage) }
	result, err := Build(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Reused || result.Version != version || result.Path != path || !result.Current {
		t.Errorf("result %+v, want image %s reused and current", result, version)
	}
	if !slices.Equal(stages, []string{StageCheck}) {
		t.Errorf("stages %v were reported, want only the check", stages)
	}
	if debian.FileExists(left) {
		t.Errorf("%s still exists", left)
	}
	if !slices.ContainsFunc(result.Changes, func(c debian.Change) bool { return c.Package == "systemd" && c.New == "999" }) {
		t.Errorf("changes %v lack systemd", result.Changes)
	}
	c.Locked = true
	if _, err := Build(t.Context(), c); err == nil || !strings.Contains(err.Error(), "locked build") {
		t.Errorf("locked build with other versions: got error %v", err)
	}
}

func TestBuildRefusesBadConfig(t *testing.T) {
	c, _ := cachedBuild(t)
	bad := c
	bad.Dir, bad.Release, bad.Agent = "images", "sarge", nil
	_, err := Build(t.Context(), bad)
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`"images"`, `"sarge"`, "regiond-node"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	bad = c
	bad.Init = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("init")), nil }
	if _, err := Build(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "regiond-init (4 bytes)") {
		t.Errorf("got error %v, want one about an init that is not a program", err)
	}
}
