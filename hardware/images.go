package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/diskimage"
)

// imageDir is the folder that holds images; node/current in it is a link to the version to install.
type imageDir string

// path returns a function that names a file of the current image. The link is resolved at each call, and
// for both files anew: kernel and initramfs of one machine are asked for seconds apart.
func (d imageDir) path(file string) func() (string, error) {
	return func() (string, error) {
		dir, err := d.current()
		if err != nil {
			return "", err
		}
		return filepath.Join(dir, file), nil
	}
}

func (d imageDir) current() (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(string(d), "node", "current"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", enrollment.ErrNoImage
	}
	return dir, err
}

// installable returns a function that reads the manifest of the current image; base is the URL of
// netboot's HTTP server.
func (d imageDir) installable(base string) func() (diskimage.Manifest, string, error) {
	return func() (m diskimage.Manifest, url string, err error) {
		dir, err := d.current()
		if err != nil {
			return m, "", err
		}
		path := filepath.Join(dir, diskimage.ManifestFile)
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return m, "", enrollment.ErrNoImage
		}
		if err != nil {
			return m, "", err
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return m, "", fmt.Errorf("image manifest %s: %w; build the image again", path, err)
		}
		version := filepath.Base(dir)
		if m.Version != version {
			return m, "", fmt.Errorf("image manifest %s: version is %q, its folder is %q; build the image again", path, m.Version, version)
		}
		return m, base + "/images/" + version, nil
	}
}
