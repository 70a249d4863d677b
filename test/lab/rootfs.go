package lab

import (
	"os"
	"path/filepath"
	"slices"
)

// EnsureRootfs returns the root file system of a node image for namespace nodes. It unpacks each
// version once, and removes those of earlier versions that no lab below labs uses.
func EnsureRootfs(labs, imageDir, version string, unpack func(dir string) error) (string, error) {
	folder := filepath.Join(imageDir, "unpacked")
	dir := filepath.Join(folder, version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	used, err := usedRootfs(labs)
	if err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return "", err
	}
	for _, o := range old {
		if slices.Contains(used, o) {
			continue
		}
		if err := os.RemoveAll(o); err != nil {
			return "", err
		}
	}
	return dir, unpack(dir)
}

// usedRootfs are the root file systems that namespace nodes of the labs in root were made of.
func usedRootfs(root string) ([]string, error) {
	links, err := filepath.Glob(filepath.Join(root, "*", "machines", "*", nodeImage))
	var used []string
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil {
			used = append(used, target)
		}
	}
	return used, err
}
