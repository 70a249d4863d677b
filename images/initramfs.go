package images

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/ulikunitz/xz"

	"regiond.dev/regiond/images/debian"
)

// maxInitramfs in bytes. It is loaded by firmware over the network, and twice by every
// installation.
const maxInitramfs = 10_000_000

// Where regiond-init finds the modules in the initramfs: ModulesDir holds uncompressed <module>.ko
// files, ModulesOrder lists them all in order of dependency, ModulesDep has the dependencies of
// each (also indirect ones) and ModulesAlias the hardware that each drives, both in depmod's
// formats.
const (
	ModulesDir   = "modules"
	ModulesOrder = "modules/order"
	ModulesDep   = "modules/modules.dep"
	ModulesAlias = "modules/modules.alias"
)

// initramfsDirs are created empty: mount points, and the folder of the ticket (enroll.TicketFile).
var initramfsDirs = []string{"dev", "etc", "etc/regiond", "mnt", ModulesDir, "proc", "root", "run", "sys", "sysroot", "tmp"}

// cpioFile is a regular file of an archive.
type cpioFile struct {
	name    string
	mode    cpio.FileMode
	content []byte
}

// moduleFiles are the modules of the recipe from the root file system, and their lists.
func moduleFiles(modules []string, system, release string) ([]cpioFile, error) {
	dir := filepath.Join(system, "usr/lib/modules", release)
	texts := map[string]string{"modules.dep": "", "modules.builtin": "", "modules.alias": ""}
	for name := range texts {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("initramfs: %w", err)
		}
		texts[name] = string(content)
	}
	plan, err := planModules(modules, texts["modules.dep"], texts["modules.builtin"])
	if err != nil {
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	files := []cpioFile{
		{ModulesOrder, 0o644, []byte(plan.order())},
		{ModulesDep, 0o644, []byte(plan.dep())},
		{ModulesAlias, 0o644, []byte(plan.aliases(texts["modules.alias"]))},
	}
	for _, file := range plan.files {
		content, err := readModule(filepath.Join(dir, file))
		if err != nil {
			return nil, fmt.Errorf("initramfs: %w", err)
		}
		files = append(files, cpioFile{ModulesDir + "/" + initramfsModule(file), 0o644, content})
	}
	return files, nil
}

// readModule returns a module decompressed: together they compress better than one by one.
func readModule(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, ".xz") {
		return content, err
	}
	reader, err := xz.NewReader(bytes.NewReader(content))
	if err == nil {
		content, err = io.ReadAll(reader)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return content, nil
}

// writeCPIO writes an archive in the "newc" format that the kernel unpacks (kernel documentation,
// "initramfs buffer format"), owned by root.
func writeCPIO(w io.Writer, dirs []string, files []cpioFile) error {
	archive := cpio.NewWriter(w)
	inode := int64(0)
	add := func(name string, mode cpio.FileMode, links int, content []byte) error {
		inode++
		header := &cpio.Header{Name: name, Mode: mode, Links: links, Inode: inode, Size: int64(len(content)), ModTime: time.Unix(sourceDate, 0)}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("cpio archive, %s: %w", name, err)
		}
		if _, err := archive.Write(content); err != nil {
			return fmt.Errorf("cpio archive, %s: %w", name, err)
		}
		return nil
	}
	for _, dir := range dirs {
		if err := add(dir, cpio.TypeDir|0o755, 2, nil); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := add(f.name, cpio.TypeReg|f.mode, 1, f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// compressArchive writes an archive as one zstd frame, padded so that another archive may follow.
func compressArchive(ctx context.Context, path string, dirs []string, files []cpioFile) error {
	plain := path + ".cpio"
	f, err := os.Create(plain)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	err = writeCPIO(f, dirs, files)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	// The kernel accepts windows up to 8 MiB at level 19; --ultra levels would need more memory.
	if err := (debian.Command{Name: "zstd", Args: []string{"-q", "-19", "--rm", "-f", "-o", path, plain}}).Run(ctx); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	if err := padTo4(path); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return nil
}

// padTo4 pads with zeros to a multiple of 4 bytes, where the kernel looks for the next archive:
// regiond-init follows the modules, and the ticket of an installation follows regiond-init.
func padTo4(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, (info.Size()+3)/4*4)
}

// checkInitramfsSize returns an error with the biggest files if an initramfs is too big.
func checkInitramfsSize(size int64, files []cpioFile) error {
	if size <= maxInitramfs {
		return nil
	}
	biggest := slices.Clone(files)
	slices.SortStableFunc(biggest, func(a, b cpioFile) int { return cmp.Compare(len(b.content), len(a.content)) })
	var parts []string
	for _, f := range biggest[:min(6, len(biggest))] {
		parts = append(parts, fmt.Sprintf("%s %d", f.name, len(f.content)))
	}
	return fmt.Errorf("initramfs has %d bytes, the limit is %d; its biggest parts in bytes before compression: %s",
		size, maxInitramfs, strings.Join(parts, ", "))
}
