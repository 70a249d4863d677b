// Package modules loads kernel modules from the initramfs, without modprobe: those of the hardware that
// is present, and those that no hardware asks for (file systems).
package modules

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of the folder of modules. Order lists the file names, each after those that it needs. Dep and alias
// are in depmod's formats; without them everything in order is loaded.
const (
	orderFile = "order"
	depFile   = "modules.dep"
	aliasFile = "modules.alias"
)

// buses whose devices are there as soon as the driver of their parent is loaded. Modules for them are
// loaded on demand; disks behind a controller (scsi:) may take time to appear, so their few drivers are
// always loaded.
var buses = []string{"pci", "virtio"}

// Set is the modules that an initramfs has.
type Set struct {
	// order of loading, by file name.
	order []string
	// needs of a file, all of them, also indirect ones.
	needs map[string][]string
	// aliases of a module (by moduleName): patterns of path.Match.
	aliases map[string][]string
}

// Read reads the lists of a folder of modules.
func Read(dir fs.FS) (*Set, error) {
	s := &Set{needs: map[string][]string{}, aliases: map[string][]string{}}
	for _, file := range []struct {
		name     string
		required bool
		line     func(string)
	}{{orderFile, true, s.addOrder}, {depFile, false, s.addDep}, {aliasFile, false, s.addAlias}} {
		b, err := fs.ReadFile(dir, file.name)
		if errors.Is(err, fs.ErrNotExist) && !file.required {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("kernel modules: %w", err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, len(b)+1)
		for lines.Scan() {
			file.line(lines.Text())
		}
	}
	return s, nil
}

func (s *Set) addOrder(line string) { s.order = append(s.order, strings.Fields(line)...) }

func (s *Set) addDep(line string) {
	if file, needs, ok := strings.Cut(line, ":"); ok {
		for _, need := range strings.Fields(needs) {
			s.needs[path.Base(file)] = append(s.needs[path.Base(file)], path.Base(need))
		}
	}
}

func (s *Set) addAlias(line string) {
	if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "alias" {
		s.aliases[moduleName(fields[2])] = append(s.aliases[moduleName(fields[2])], fields[1])
	}
}

// moduleName of a file or alias: the kernel does not distinguish - and _.
func moduleName(file string) string {
	name, _, _ := strings.Cut(file, ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// Wanted returns the files to load for hardware with those modaliases, in order. A module is for hardware when
// it, or one that it needs, has aliases for devices on the buses (mlx4_core, and so mlx4_en): it is wanted when
// one of them matches. Of the others, those that nothing needs are wanted (ext4), and libraries come with
// whatever needs them.
func (s *Set) Wanted(modaliases []string) []string {
	needed := map[string]bool{}
	for _, needs := range s.needs {
		for _, n := range needs {
			needed[n] = true
		}
	}
	wanted := map[string]bool{}
	for _, file := range s.order {
		patterns := s.ofBuses(file)
		if len(patterns) == 0 && !needed[file] {
			for _, n := range s.needs[file] {
				patterns = append(patterns, s.ofBuses(n)...)
			}
			if len(patterns) == 0 {
				wanted[file] = true
			}
		}
		if matches(patterns, modaliases) || len(s.aliases) == 0 {
			wanted[file] = true
		}
		if wanted[file] {
			for _, n := range s.needs[file] {
				wanted[n] = true
			}
		}
	}
	var files []string
	for _, file := range s.order {
		if wanted[file] {
			files = append(files, file)
		}
	}
	return files
}

// ofBuses are the aliases of a file for devices on the buses.
func (s *Set) ofBuses(file string) []string {
	var patterns []string
	for _, a := range s.aliases[moduleName(file)] {
		if bus, _, _ := strings.Cut(a, ":"); slices.Contains(buses, bus) {
			patterns = append(patterns, a)
		}
	}
	return patterns
}

func matches(patterns, modaliases []string) bool {
	for _, p := range patterns {
		for _, m := range modaliases {
			// A malformed pattern matches nothing.
			if ok, err := path.Match(p, m); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// Load loads what the hardware needs, again and again until a round finds nothing more: loading a bus's
// driver shows the devices on it. load loads one file; what fails is reported at the end and does not
// keep the others from loading.
func (s *Set) Load(sys fs.FS, load func(file string) error) (loaded int, err error) {
	done := map[string]bool{}
	var errs []error
	for {
		modaliases, err := Modaliases(sys)
		if err != nil {
			return loaded, errors.Join(append(errs, err)...)
		}
		news := 0
		for _, file := range s.Wanted(modaliases) {
			if done[file] {
				continue
			}
			done[file] = true
			news++
			if err := load(file); err != nil {
				errs = append(errs, fmt.Errorf("kernel module %s: %w", file, err))
				continue
			}
			loaded++
		}
		if news == 0 {
			return loaded, errors.Join(errs...)
		}
	}
}

// Modaliases lists what the devices on the buses call for.
func Modaliases(sys fs.FS) ([]string, error) {
	var found []string
	for _, bus := range buses {
		files, err := fs.Glob(sys, "bus/"+bus+"/devices/*/modalias")
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			b, err := fs.ReadFile(sys, f)
			if errors.Is(err, fs.ErrNotExist) {
				continue // unplugged meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("kernel modules: %w", err)
			}
			found = append(found, strings.TrimSpace(string(b)))
		}
	}
	return found, nil
}

// Insert loads a module file into the kernel, which unpacks it when it is compressed (finit_module(2)). A module
// that is there already is not an error, nor is one for which there is no hardware (accelerated crc32c).
func Insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	// Opened for reading only.
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	err = unix.FinitModule(int(f.Fd()), "", flags)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
