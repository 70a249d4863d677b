package diskimage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"regiond.dev/regiond/machine/diskimage"
)

// pseudorandom returns bytes that do not compress, the same ones for the same seed.
func pseudorandom(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	if _, err := r.Read(b); err != nil {
		panic(err)
	}
	return b
}

func split(t *testing.T, content []byte, size int64, dir string) []diskimage.Chunk {
	t.Helper()
	chunks, err := diskimage.Split(t.Context(), bytes.NewReader(content), size, dir)
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

func join(t *testing.T, chunks []diskimage.Chunk, size int64, dir string) []byte {
	t.Helper()
	decoder, err := diskimage.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	out := make([]byte, size)
	for _, c := range chunks {
		b, err := os.ReadFile(filepath.Join(dir, c.SHA256))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := decoder.Decode(c, b)
		if err != nil {
			t.Fatal(err)
		}
		copy(out[c.Offset:], plain)
	}
	return out
}

func TestSplitRoundTrip(t *testing.T) {
	const size = 11 * diskimage.MiB
	content := make([]byte, size-1000) // a file that is shorter than its partition
	copy(content[0:], pseudorandom(1, 2*diskimage.MiB))
	copy(content[3*diskimage.MiB:], pseudorandom(2, 2*diskimage.MiB)) // crosses a window's border
	content[len(content)-1] = 1
	dir := t.TempDir()
	chunks := split(t, content, size, dir)
	type run struct{ offset, length int64 }
	var got []run
	for _, c := range chunks {
		got = append(got, run{c.Offset / diskimage.MiB, c.Length / diskimage.MiB})
	}
	if want := []run{{0, 2}, {3, 1}, {4, 1}, {10, 1}}; !reflect.DeepEqual(got, want) {
		t.Fatalf("chunks (MiB) %v, want %v", got, want)
	}
	if !bytes.Equal(join(t, chunks, size, dir), append(content, make([]byte, 1000)...)) {
		t.Fatal("joined chunks differ from the content")
	}
	// The same content gives the same chunks, elsewhere and in the same folder again.
	for _, d := range []string{t.TempDir(), dir} {
		if again := split(t, content, size, d); !reflect.DeepEqual(again, chunks) {
			t.Fatalf("second split gave %v, want %v", again, chunks)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != len(chunks) {
		t.Fatalf("%d files in the chunk folder (%v), want %d: temporary files must not stay", len(names), err, len(chunks))
	}
}

// A zstd that is not ours reads the chunks.
func TestChunksAreZstdFrames(t *testing.T) {
	dir := t.TempDir()
	content := bytes.Repeat([]byte("regiond "), diskimage.MiB/8)
	chunks := split(t, content, diskimage.MiB, dir)
	out, err := exec.Command("zstd", "-dc", "--no-progress", "-f", filepath.Join(dir, chunks[0].SHA256)).Output()
	if err != nil {
		t.Fatalf("zstd: %v", err)
	}
	if !bytes.Equal(out, content) {
		t.Fatal("zstd unpacked something else")
	}
}

func TestSplitStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := diskimage.Split(ctx, bytes.NewReader(nil), diskimage.MiB, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled split: %v", err)
	}
	if _, err := diskimage.Split(t.Context(), bytes.NewReader(nil), 1000, t.TempDir()); err == nil {
		t.Fatal("size 1000 was accepted")
	}
	if _, err := diskimage.Split(t.Context(), brokenReader{}, diskimage.MiB, t.TempDir()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("read error is lost: %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestDecodeRefuses(t *testing.T) {
	dir := t.TempDir()
	c := split(t, pseudorandom(3, diskimage.MiB), diskimage.MiB, dir)[0]
	good, err := os.ReadFile(filepath.Join(dir, c.SHA256))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := diskimage.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"flipped": flipped, "short": good[:100], "empty": nil} {
		if _, err := decoder.Decode(c, bad); !errors.Is(err, diskimage.ErrChecksum) {
			t.Errorf("%s: %v, want a checksum mismatch", name, err)
		}
	}
	long := c
	long.Length--
	if _, err := decoder.Decode(long, good); err == nil || !strings.Contains(err.Error(), "unpacks to") {
		t.Errorf("wrong length: %v", err)
	}
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	m := testManifest(t, dir)
	if err := diskimage.WriteManifest(dir, m); err != nil {
		t.Fatal(err)
	}
	got, err := diskimage.ReadManifest(dir)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("read back %+v (%v), want %+v", got, err, m)
	}
	if err := diskimage.Verify(dir, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, diskimage.ChunkDir, m.Partitions[1].Chunks[0].SHA256), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := diskimage.Verify(dir, m); !errors.Is(err, diskimage.ErrChecksum) {
		t.Fatalf("verify of a damaged image: %v", err)
	}
}

// testManifest is a small image with its chunks in dir.
func testManifest(t *testing.T, dir string) *diskimage.Manifest {
	t.Helper()
	chunkDir := filepath.Join(dir, diskimage.ChunkDir)
	m := &diskimage.Manifest{Version: "test-1", MBR: bytes.Repeat([]byte{0x90}, 440)}
	for i, p := range []struct {
		label string
		mib   int64
	}{{diskimage.LabelBIOS, 1}, {diskimage.LabelESP, 2}, {diskimage.LabelRootA, 6}, {diskimage.LabelData, 2}} {
		content := make([]byte, p.mib*diskimage.MiB)
		copy(content[(p.mib-1)*diskimage.MiB:], pseudorandom(uint64(i), diskimage.MiB))
		m.Partitions = append(m.Partitions, diskimage.Partition{
			Label: p.label, Size: p.mib * diskimage.MiB, Chunks: split(t, content, p.mib*diskimage.MiB, chunkDir),
		})
	}
	return m
}
