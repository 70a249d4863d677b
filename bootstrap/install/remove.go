package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"regiond.dev/regiond/bootstrap/systemd"
)

// Removal is the plan of removing an installation. Planning it changes nothing.
type Removal struct {
	// Unit is the service to stop and disable, empty if none was installed.
	Unit string
	// Files to remove: they are unchanged since their installation.
	Files []string
	// Kept files have been changed since.
	Kept []string
	// Directories to remove if they are empty afterwards.
	Directories []string
}

// PlanRemoval compares the record with the files on the host.
func PlanRemoval(dataDir string) (Removal, error) {
	record, err := ReadRecord(dataDir)
	if err != nil {
		return Removal{}, err
	}
	r := Removal{Directories: record.Directories}
	for _, path := range slices.Sorted(maps.Keys(record.Files)) {
		sum, err := fileSum(path)
		if err != nil {
			return Removal{}, err
		}
		switch sum {
		case "":
			continue // never written, or already removed
		case record.Files[path]:
			r.Files = append(r.Files, path)
		default:
			r.Kept = append(r.Kept, path)
		}
		if filepath.Base(path) == systemd.UnitName {
			r.Unit = systemd.UnitName
		}
	}
	return r, nil
}

// Stop stops and disables the service.
func (r Removal) Stop(ctx context.Context, systemctl systemd.Systemctl) error {
	if r.Unit == "" || !systemd.Booted() {
		return nil
	}
	_, err := systemctl(ctx, "disable", "--now", r.Unit)
	return err
}

// Remove removes the files, after Stop.
func (r Removal) Remove(ctx context.Context, systemctl systemd.Systemctl) error {
	var errs []error
	for _, f := range r.Files {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, d := range r.Directories {
		err := syscall.Rmdir(d)
		if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTEMPTY) {
			errs = append(errs, fmt.Errorf("remove %s: %w", d, err))
		}
	}
	if r.Unit != "" && systemd.Booted() {
		if _, err := systemctl(ctx, "daemon-reload"); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
