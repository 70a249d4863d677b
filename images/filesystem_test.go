package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/bootloader"
)

// output runs one of the programs that check the result.
func output(t *testing.T, env string, name string, args ...string) string {
	t.Helper()
	path, ok := debian.Find(name, debian.FileExists)
	if !ok {
		t.Fatalf("%s is not installed (Debian: e2fsprogs, mtools, dosfstools)", name)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("images are built as root; run this test as root")
	}
}

func TestESPHoldsTree(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	tree, image := filepath.Join(dir, "esp"), filepath.Join(dir, "esp.img")
	for _, text := range bootloader.Files() {
		if err := writeFile(tree, text.Path, []byte(text.Content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := clampTimes(tree); err != nil {
		t.Fatal(err)
	}
	if err := makeVFAT(t.Context(), image, tree); err != nil {
		t.Fatal(err)
	}
	output(t, "", "fsck.vfat", "-n", image)
	// The entry's name with its counter is a long file name; it must come out unchanged.
	if got := output(t, "MTOOLSRC=/dev/null", "mtype", "-i", image, "::/"+bootloader.EntryPath(bootloader.SlotA)); got != bootloader.Entry(bootloader.SlotA, 1) {
		t.Errorf("the entry on the ESP is %q, want it unchanged", got)
	}
	first, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := makeVFAT(t.Context(), image, tree); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(again) {
		t.Error("the same tree gives a different ESP the second time")
	}
}

func TestDataFilesystem(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	a := &assembly{work: dir, system: filepath.Join(dir, "system")}
	if err := writeFile(a.system, "etc/group", []byte("root:x:0:\nsystemd-journal:x:999:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree, err := a.dataTree()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "mke2fs.conf")
	content, err := recipeFiles.ReadFile("node/mke2fs.conf")
	if err == nil {
		err = os.WriteFile(config, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "data.img")
	e := ext4{image: image, content: tree, label: "regiond-data", uuid: uuidData, size: sizeData, journal: 64, resize: resizeData}
	if err := e.make(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	output(t, "", "e2fsck", "-f", "-n", image)
	header := output(t, "", "dumpe2fs", "-h", image)
	for _, want := range []string{uuidData, "metadata_csum", "64bit", "Block size:               4096", "Inode size:	          256"} {
		if !strings.Contains(header, want) {
			t.Errorf("the file system lacks %q:\n%s", want, header)
		}
	}
	list := output(t, "", "debugfs", "-R", "ls -l /", image)
	for _, want := range []string{"42755 (2)      0    999", "40700 (2)      0      0    4096"} {
		if !strings.Contains(list, want) {
			t.Errorf("its root lacks %q:\n%s", want, list)
		}
	}
	partition, err := splitPartition(t.Context(), "data", image, sizeData, filepath.Join(dir, "chunks"))
	if err != nil {
		t.Fatal(err)
	}
	var plain int64
	for _, c := range partition.Chunks {
		plain += c.Length
	}
	// Journal and inode tables are zeros and are not sent.
	if plain > 16<<20 {
		t.Errorf("an empty file system of %d bytes has %d bytes to write, want far fewer", int64(sizeData), plain)
	}
	if err := os.WriteFile(filepath.Join(tree, "big"), []byte(strings.Repeat("x", 8<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	e.size, e.journal = 4<<20, 0
	if err := e.make(t.Context(), config); err == nil || !strings.Contains(err.Error(), "regiond-data") {
		t.Errorf("got error %v for a file system that is too small, want one that names it", err)
	}
}

func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	// A symbolic link of the image must not lead outside.
	outside := filepath.Join(t.TempDir(), "fstab")
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "etc/fstab")); err != nil {
		t.Fatal(err)
	}
	if err := writeOverlay(dir); err != nil {
		t.Fatal(err)
	}
	if debian.FileExists(outside) {
		t.Error("the overlay was written through a symbolic link")
	}
	for path, mode := range map[string]os.FileMode{
		"etc/fstab": 0o644, "etc/systemd/system/regiond-node.service": 0o644, "usr/lib/regiond/on-root-disk": 0o755,
	} {
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want mode %v", path, info, err, mode)
		}
	}
}
