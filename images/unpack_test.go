package images

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRootfsOfCurrentImage(t *testing.T) {
	dir := t.TempDir()
	if _, err := Rootfs(dir); err == nil || !strings.Contains(err.Error(), "regiond image build") {
		t.Errorf("no image: error %v, want what to do", err)
	}
	image, cache := filepath.Join(dir, nodeDir, "v1"), filepath.Join(dir, nodeDir, rootfsDir, "k")
	for _, d := range []string{image, cache} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("v1", filepath.Join(dir, nodeDir, currentLink)); err != nil {
		t.Fatal(err)
	}
	if _, err := Rootfs(dir); err == nil || !strings.Contains(err.Error(), "v1") || !strings.Contains(err.Error(), "--refresh") {
		t.Errorf("an image without a link: got error %v, want its name and what to do", err)
	}
	if err := os.Symlink(filepath.Join("..", rootfsDir, "k"), filepath.Join(image, rootfsLink)); err != nil {
		t.Fatal(err)
	}
	if _, err := GuestParts(dir); err == nil || !strings.Contains(err.Error(), "rootfs.tar.zst") {
		t.Errorf("no archive: got error %v, want its name", err)
	}
	archive := filepath.Join(cache, "rootfs.tar.zst")
	if err := os.WriteFile(archive, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Rootfs(dir); err != nil || got != archive {
		t.Errorf("Rootfs %q, %v; want %q", got, err, archive)
	}
	if got, err := GuestParts(dir); err != nil || got != filepath.Join(cache, "guest") {
		t.Errorf("GuestParts %q, %v; want the folder beside the archive", got, err)
	}
}

func TestUnpackNeedsAValidConfig(t *testing.T) {
	if _, err := Unpack(context.Background(), Config{Dir: "images", Release: Releases[0], Log: slog.Default()}, t.TempDir()); err == nil {
		t.Error("unpacked without programs, from a relative folder")
	}
}
