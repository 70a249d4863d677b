package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/diskimage"
)

// Sizes of partitions in bytes. Installations use them unchanged, except that data takes the rest
// of the disk. The slots are much bigger than today's system because they can never grow. Empty
// space costs nothing: it is neither stored nor sent.
const (
	sizeESP  = 512 << 20
	sizeRoot = 3 << 30
	sizeData = 256 << 20
)

// Identifiers of file systems. They are the same on every node, and on both root slots, because
// partitions are mounted by label.
const (
	espSerial  = "52474e44"
	uuidRoot   = "7265676f-6e64-4000-8000-000000000001"
	uuidData   = "7265676f-6e64-4000-8000-000000000002"
	labelESP   = "REGIOND-ESP"
	resizeData = 1 << 28 // blocks of 4 KiB, 1 TiB: room for group descriptors, so that data can grow without moving
)

func createSparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// makeVFAT creates a FAT32 file system with the content of a folder.
func makeVFAT(ctx context.Context, image, content string) error {
	if err := createSparse(image, sizeESP); err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	err := debian.Command{Name: "mkfs.vfat", Args: []string{"--invariant", "-F", "32", "-s", "8", "-n", labelESP, "-i", espSerial, image}}.Run(ctx)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	entries, err := os.ReadDir(content)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	// -s: recursive, -m: keep times. MTOOLSRC keeps out the builder's own configuration.
	args := []string{"-s", "-m", "-Q", "-i", image}
	for _, e := range entries {
		args = append(args, filepath.Join(content, e.Name()))
	}
	err = debian.Command{Name: "mcopy", Args: append(args, "::/"), Env: []string{"MTOOLSRC=/dev/null", "MTOOLS_SKIP_CHECK=1", "TZ=UTC", "SOURCE_DATE_EPOCH=" + strconv.Itoa(sourceDate)}}.Run(ctx)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	return nil
}

// ext4 is an ext4 file system to create.
type ext4 struct {
	image, content string
	label, uuid    string
	size           int64
	// journal in MiB, 0 for mke2fs's choice.
	journal int
	// resize is the maximum number of blocks it can grow to, 0 if it never grows.
	resize int64
}

// make writes the file system with the content of a folder. Inode tables and journal are written in
// full, as zeros. That costs nothing here, and the kernel need not do it in the background of the
// first boot.
func (e ext4) make(ctx context.Context, config string) error {
	if err := createSparse(e.image, e.size); err != nil {
		return fmt.Errorf("file system %s: %w", e.label, err)
	}
	options := "lazy_itable_init=0,lazy_journal_init=0,nodiscard,root_owner=0:0,hash_seed=" + e.uuid
	if e.resize > 0 {
		options += ",resize=" + strconv.FormatInt(e.resize, 10)
	}
	args := []string{"-q", "-F", "-t", "ext4", "-T", "default", "-b", "4096", "-m", "1", "-L", e.label, "-U", e.uuid, "-E", options}
	if e.journal > 0 {
		args = append(args, "-J", "size="+strconv.Itoa(e.journal))
	}
	err := debian.Command{
		Name: "mke2fs", Args: append(args, "-d", e.content, e.image),
		Env: []string{"MKE2FS_CONFIG=" + config, "E2FSPROGS_FAKE_TIME=" + strconv.Itoa(sourceDate), "SOURCE_DATE_EPOCH=" + strconv.Itoa(sourceDate)},
	}.Run(ctx)
	if err != nil {
		return fmt.Errorf("file system %s of %d bytes: %w", e.label, e.size, err)
	}
	return nil
}

// splitPartition cuts a partition's file into chunks.
func splitPartition(ctx context.Context, label, image string, size int64, dir string) (diskimage.Partition, error) {
	f, err := os.Open(image)
	if err != nil {
		return diskimage.Partition{}, fmt.Errorf("partition %s: %w", label, err)
	}
	defer f.Close()
	chunks, err := diskimage.Split(ctx, f, size, dir)
	if err != nil {
		return diskimage.Partition{}, fmt.Errorf("partition %s: %w", label, err)
	}
	return diskimage.Partition{Label: label, Size: size, Chunks: chunks}, nil
}
