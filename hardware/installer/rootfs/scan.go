package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/inventory"
)

// lookEvery is how often new disks are looked for.
const lookEvery = 100 * time.Millisecond

// settle is how long further disks are waited for when the boot loader did not say which is its own: two
// installations are an error, and the second disk may appear a little later.
const settle = time.Second

// Find looks until the root partition is there. It gives up when the context ends, or when more waiting
// cannot help.
func Find(ctx context.Context, sys fs.FS, openDisk func(name string) (*os.File, error), label, loaderESP string) (Candidate, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var first time.Time
	for {
		candidates, err := scan(sys, openDisk, label)
		if err != nil {
			return Candidate{}, err
		}
		chosen, err := Choose(candidates, loaderESP)
		if len(candidates) > 0 && first.IsZero() {
			first = time.Now()
		}
		settled := loaderESP != "" || time.Since(first) >= settle
		if !errors.Is(err, ErrNotYet) && settled {
			return chosen, err
		}
		select {
		case <-ctx.Done():
			return Candidate{}, fmt.Errorf("root partition %q: %w (%w)", label, err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// scan lists the partitions of that label.
func scan(sys fs.FS, openDisk func(name string) (*os.File, error), label string) ([]Candidate, error) {
	// /sys/block/sda/sda3/uevent has PARTNAME, the label in the GPT.
	files, err := fs.Glob(sys, "block/*/*/uevent")
	if err != nil {
		return nil, err
	}
	var found []Candidate
	for _, file := range files {
		properties, err := fs.ReadFile(sys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		if property(string(properties), "PARTNAME") != label {
			continue
		}
		folder := path.Dir(file)
		c := Candidate{Device: path.Base(folder), Disk: path.Base(path.Dir(folder))}
		// A second disk that is broken does not keep the first from booting.
		c.Problem = inspect(&c, openDisk)
		found = append(found, c)
	}
	return found, nil
}

// inspect reads the marker and the partition table of the candidate's disk.
func inspect(c *Candidate, openDisk func(name string) (*os.File, error)) error {
	f, err := openDisk(c.Disk)
	if err != nil {
		return err
	}
	// Opened for reading only.
	defer f.Close()
	b := make([]byte, inventory.MarkerSize)
	if _, err := f.ReadAt(b, inventory.MarkerOffset); err != nil {
		return fmt.Errorf("read install marker of %s: %w", c.Disk, err)
	}
	if marker := inventory.DecodeMarker(b); marker != nil {
		c.Complete = marker.Complete
	}
	_, guids, err := diskimage.ReadTable(f)
	if err != nil {
		return err
	}
	c.ESP = guids[diskimage.LabelESP]
	return nil
}

func property(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && k == key {
			return v
		}
	}
	return ""
}
