package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/machine/bootloader"
	"regiond.dev/regiond/machine/diskimage"
)

// assembly is an image being built.
type assembly struct {
	rec     *recipe
	root    *rootfs
	version string
	kernel  string // release

	// out becomes the image's folder, system is the unpacked root file system, work has the rest.
	out, system, work string
}

// modulesPrefix of the cached archive of modules, beside the root file system that they are from.
const modulesPrefix = "modules-"

// makeSystem unpacks and furnishes the root file system.
func (a *assembly) makeSystem(ctx context.Context, agent []byte) error {
	if err := os.MkdirAll(a.out, 0o755); err != nil {
		return err
	}
	if err := unpackRootfs(ctx, a.root, a.system); err != nil {
		return err
	}
	fetched, err := os.Stat(a.root.archive())
	if err != nil {
		return err
	}
	if err := customize(ctx, a.rec, a.system, a.version, agent, fetched.ModTime()); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join("..", rootfsDir, a.root.key), filepath.Join(a.out, rootfsLink)); err != nil {
		return err
	}
	a.kernel, err = kernelRelease(a.system)
	return err
}

// makeInitramfs also copies the kernel and loaders that are booted over the network, and the list
// of packages.
func (a *assembly) makeInitramfs(ctx context.Context, init *program) error {
	if err := a.initramfs(ctx, init); err != nil {
		return err
	}
	for _, f := range []struct{ from, to string }{
		{a.root.boot("vmlinuz"), KernelFile},
		{a.root.loader(LoaderUEFI), filepath.Join(LoaderDir, LoaderUEFI)},
		{a.root.loader(LoaderBIOS), filepath.Join(LoaderDir, LoaderBIOS)},
		{filepath.Join(a.root.dir, PackagesFile), PackagesFile},
	} {
		if err := copyFile(f.from, filepath.Join(a.out, f.to)); err != nil {
			return err
		}
	}
	return nil
}

// initramfs joins two archives: the modules, which are cached because compressing them takes longer
// than everything else, and regiond-init.
func (a *assembly) initramfs(ctx context.Context, init *program) error {
	files, err := moduleFiles(a.rec.modules, a.system, a.kernel)
	if err != nil {
		return err
	}
	modules, err := a.moduleArchive(ctx, files)
	if err != nil {
		return err
	}
	path, initPath := filepath.Join(a.out, InitramfsFile), filepath.Join(a.work, "init")
	initFile := cpioFile{"init", 0o755, init.content}
	if err := compressArchive(ctx, initPath, nil, []cpioFile{initFile}); err != nil {
		return err
	}
	var joined []byte
	for _, part := range []string{modules, initPath} {
		content, err := os.ReadFile(part)
		if err != nil {
			return fmt.Errorf("initramfs: %w", err)
		}
		joined = append(joined, content...)
	}
	if err := os.WriteFile(path, joined, 0o644); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return checkInitramfsSize(int64(len(joined)), append(files, initFile))
}

// moduleArchive returns the cached archive of the modules, and creates it if there is none.
func (a *assembly) moduleArchive(ctx context.Context, files []cpioFile) (string, error) {
	h := debian.NewKey(imageRevision)
	for _, f := range files {
		h.Field(f.name, string(f.content))
	}
	cached := filepath.Join(a.root.dir, modulesPrefix+h.Sum())
	if debian.FileExists(cached) {
		return cached, nil
	}
	old, err := filepath.Glob(filepath.Join(a.root.dir, modulesPrefix+"*"))
	if err != nil {
		return "", fmt.Errorf("initramfs: %w", err)
	}
	for _, o := range old {
		if err := os.Remove(o); err != nil {
			return "", fmt.Errorf("initramfs: %w", err)
		}
	}
	next := filepath.Join(a.work, "modules")
	if err := compressArchive(ctx, next, initramfsDirs, files); err != nil {
		return "", err
	}
	// A file of that name is complete, even after a power cut.
	if err := debian.SyncFS(next); err != nil {
		return "", fmt.Errorf("initramfs: %w", err)
	}
	if err := os.Rename(next, cached); err != nil {
		return "", fmt.Errorf("initramfs: %w", err)
	}
	return cached, nil
}

// makeESP writes the tree and the file system of the EFI system partition.
func (a *assembly) makeESP(ctx context.Context) error {
	tree := filepath.Join(a.work, "esp")
	loader := a.root.boot("systemd-bootx64.efi")
	for _, f := range []struct{ from, to string }{
		{loader, "EFI/systemd/systemd-bootx64.efi"},
		// Where firmware looks when it has lost its boot entries (UEFI 2.10 section 3.5.1.1).
		{loader, "EFI/BOOT/BOOTX64.EFI"},
		{filepath.Join(a.out, KernelFile), bootloader.Kernel(bootloader.SlotA)},
		{filepath.Join(a.out, InitramfsFile), bootloader.Initrd(bootloader.SlotA)},
	} {
		if err := copyFile(f.from, filepath.Join(tree, f.to)); err != nil {
			return fmt.Errorf("ESP: %w", err)
		}
	}
	for _, text := range bootloader.Files() {
		if err := writeFile(tree, text.Path, []byte(text.Content), 0o644); err != nil {
			return fmt.Errorf("ESP: %w", err)
		}
	}
	// The folder of the other slot, for updates.
	if err := os.MkdirAll(filepath.Join(tree, filepath.Dir(bootloader.Kernel(bootloader.SlotB))), 0o755); err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	if err := clampTimes(tree); err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	return makeVFAT(ctx, a.partition(diskimage.LabelESP), tree)
}

// partition is the file with a partition's content.
func (a *assembly) partition(label string) string { return filepath.Join(a.work, label+".img") }

// makeFilesystems makes those of the root and data partitions.
func (a *assembly) makeFilesystems(ctx context.Context) error {
	config := filepath.Join(a.work, "mke2fs.conf")
	content, err := recipeFiles.ReadFile("node/mke2fs.conf")
	if err == nil {
		err = os.WriteFile(config, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("configuration of mke2fs: %w", err)
	}
	data, err := a.dataTree()
	if err != nil {
		return fmt.Errorf("data partition: %w", err)
	}
	for _, e := range []ext4{
		{image: a.partition(diskimage.LabelRootA), content: a.system, label: "regiond-root", uuid: uuidRoot, size: sizeRoot},
		{image: a.partition(diskimage.LabelData), content: data, label: "regiond-data", uuid: uuidData, size: sizeData, journal: 64, resize: resizeData},
	} {
		if err := e.make(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

// dataTree is the content of a new data partition: the journal's folder, which journald expects to
// belong to its group, and the folder of the agent's key.
func (a *assembly) dataTree() (string, error) {
	tree := filepath.Join(a.work, "data")
	journal, agent := filepath.Join(tree, "journal"), filepath.Join(tree, "agent")
	for _, dir := range []string{journal, agent} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	gid, err := groupID(a.system, "systemd-journal")
	if err != nil {
		return "", err
	}
	if err := os.Chown(journal, 0, gid); err != nil {
		return "", err
	}
	for dir, mode := range map[string]os.FileMode{tree: 0o755, journal: 0o755 | os.ModeSetgid, agent: 0o700} {
		if err := os.Chmod(dir, mode); err != nil {
			return "", err
		}
	}
	return tree, clampTimes(tree)
}

// makeChunks compresses the partitions.
func (a *assembly) makeChunks(ctx context.Context) error {
	bootImg, err := os.ReadFile(a.root.boot("boot.img"))
	if err != nil {
		return fmt.Errorf("bios partition: %w", err)
	}
	coreImg, err := os.ReadFile(a.root.boot("core.img"))
	if err != nil {
		return fmt.Errorf("bios partition: %w", err)
	}
	mbr, bios, err := diskimage.GRUBForBIOS(bootImg, coreImg)
	if err != nil {
		return fmt.Errorf("bios partition: %w", err)
	}
	if err := os.WriteFile(a.partition(diskimage.LabelBIOS), bios, 0o644); err != nil {
		return fmt.Errorf("bios partition: %w", err)
	}
	chunks := filepath.Join(a.out, diskimage.ChunkDir)
	var partitions []diskimage.Partition
	for _, p := range []struct {
		label string
		size  int64
	}{
		{diskimage.LabelBIOS, int64(len(bios))},
		{diskimage.LabelESP, sizeESP},
		{diskimage.LabelRootA, sizeRoot},
		{diskimage.LabelData, sizeData},
	} {
		partition, err := splitPartition(ctx, p.label, a.partition(p.label), p.size, chunks)
		if err != nil {
			return err
		}
		partitions = append(partitions, partition)
	}
	return a.writeManifest(mbr, partitions)
}
