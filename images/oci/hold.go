package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
)

// heldDir is the folder of the sets that holders run, beside the latest builds.
const heldDir = "held"

// Hold keeps the images of a set in an images folder for a holder, e.g. the cluster that runs them,
// whatever is built later. It replaces the set that the holder held before.
func Hold(imageDir, holder string, set Set) error {
	file := heldFile(imageDir, holder)
	if was, err := readSet(file); err == nil && reflect.DeepEqual(was, set) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("images that %s runs: %w", holder, err)
	}
	if err := writeSet(file, set); err != nil {
		return fmt.Errorf("images that %s runs: %w", holder, err)
	}
	return nil
}

// Unhold releases the set that Hold kept for a holder.
func Unhold(imageDir, holder string) error {
	if err := os.Remove(heldFile(imageDir, holder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("images that %s ran: %w", holder, err)
	}
	return nil
}

func heldFile(imageDir, holder string) string {
	return filepath.Join(LayoutDir(imageDir), heldDir, holder+".json")
}

// held returns the held sets of all holders.
func held(imageDir string) ([]Set, error) {
	files, err := filepath.Glob(filepath.Join(LayoutDir(imageDir), heldDir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("component images: %w", err)
	}
	var sets []Set
	for _, file := range files {
		set, err := readSet(file)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}
