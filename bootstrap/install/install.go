package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"regiond.dev/regiond/bootstrap/systemd"
	"regiond.dev/regiond/machine/atomicfile"
)

// Paths are the paths of an installation.
type Paths struct {
	Program    string
	RegionFile string
	Unit       string
}

// DefaultPaths follow the Filesystem Hierarchy Standard for software the administrator installs.
var DefaultPaths = Paths{
	Program:    "/usr/local/bin/regiond",
	RegionFile: "/etc/regiond/region.yaml",
	Unit:       "/etc/systemd/system/" + systemd.UnitName,
}

// Config configures an installation.
type Config struct {
	Paths   Paths
	DataDir string
	// Program is the running program, which is copied.
	Program string
	// RegionFile is the given region file, and its content.
	RegionFile string
	Region     []byte
	Systemctl  systemd.Systemctl
	// Report is called for each action.
	Report func(format string, a ...any)
}

// Install installs the files and starts the service, or restarts it if something changed. It is
// idempotent and does only what is missing. It does not wait for the region.
func Install(ctx context.Context, c Config) error {
	program, err := os.ReadFile(c.Program)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	unit := systemd.Unit{Program: c.Paths.Program, RegionFile: c.Paths.RegionFile}.Text()
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	record, err := ReadRecord(c.DataDir)
	if err != nil {
		return err
	}
	files := []file{
		{path: c.Paths.Program, content: program, mode: 0o755, given: c.Program},
		c.regionFile(),
		{path: c.Paths.Unit, content: []byte(unit), mode: 0o644},
	}
	changed := false
	for _, f := range files {
		wrote, err := c.put(f, &record)
		if err != nil {
			return err
		}
		changed = changed || wrote
	}
	if _, err := c.Systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if _, err := c.Systemctl(ctx, "enable", systemd.UnitName); err != nil {
		return err
	}
	return c.start(ctx, changed)
}

// KeepRegionFile copies the applied region file to the installed service, so that its next start
// uses what is running. It does nothing if no service was installed from this data directory. A
// file that was edited by hand is an error.
func (c Config) KeepRegionFile() error {
	record, err := ReadRecord(c.DataDir)
	if err != nil || record.Files[c.Paths.RegionFile] == "" {
		return err
	}
	_, err = c.put(c.regionFile(), &record)
	return err
}

// regionFile is readable by root only, because it names files with secrets and the layout of
// networks.
func (c Config) regionFile() file {
	return file{path: c.Paths.RegionFile, content: c.Region, mode: 0o600, given: c.RegionFile, edited: true}
}

// start does not block; the caller shows progress meanwhile.
func (c Config) start(ctx context.Context, changed bool) error {
	state, err := systemd.Show(ctx, c.Systemctl)
	if err != nil {
		return err
	}
	verb, text := "start", "starting"
	switch {
	case state.Up() && !changed:
		c.Report("%s is running and nothing changed", systemd.UnitName)
		return nil
	case state.Up():
		verb, text = "restart", "restarting with the changes"
	case state.Sub == "auto-restart":
		verb, text = "restart", "restarting"
	}
	if _, err := c.Systemctl(ctx, verb, "--no-block", systemd.UnitName); err != nil {
		return err
	}
	c.Report("%s: %s", systemd.UnitName, text)
	return nil
}

// ErrEdited is wrapped by errors about a file that was edited by hand and is not overwritten.
var ErrEdited = errors.New("changed since it was installed")

type file struct {
	path    string
	content []byte
	mode    os.FileMode
	// given is the source file of the content, if any.
	given string
	// edited: people edit the file after installation, and their changes are not overwritten.
	edited bool
}

// put records one file and then writes it, unless it already exists.
func (c Config) put(f file, record *Record) (wrote bool, err error) {
	sum := sha256.Sum256(f.content)
	wanted := hex.EncodeToString(sum[:])
	have, err := fileSum(f.path)
	if err != nil {
		return false, err
	}
	switch {
	case have == wanted:
		// It is ours if it was recorded; otherwise someone else wrote the same content and owns the file.
		return false, os.Chmod(f.path, f.mode)
	case f.edited && have != "" && have != record.Files[f.path]:
		return false, fmt.Errorf("%s was %w, or was not installed by regiond; to keep it: regiond install -f %s; to replace it: move it away first",
			f.path, ErrEdited, f.path)
	}
	if err := c.makeDirectory(filepath.Dir(f.path), record); err != nil {
		return false, err
	}
	record.Files[f.path] = wanted
	if err := record.write(c.DataDir); err != nil {
		return false, err
	}
	if err := atomicfile.Write(f.path, f.content, f.mode); err != nil {
		return false, err
	}
	c.Report("wrote %s", f.path)
	return true, nil
}

// makeDirectory creates and records one missing level, which is all that the paths need.
func (c Config) makeDirectory(dir string, record *Record) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	record.Directories = append(record.Directories, dir)
	if err := record.write(c.DataDir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o755)
}
