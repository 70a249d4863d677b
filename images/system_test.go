package images

import (
	"path"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/images/debian"
)

// Every mount has a mount point. Every folder that is bound from the data partition has an owner,
// or it would belong to root when systemd creates it.
func TestStateOnTheDataPartition(t *testing.T) {
	read := func(name string) []string {
		content, err := recipeFiles.ReadFile("node/files/etc/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return debian.Lines(string(content))
	}
	owned := map[string]bool{"/var/log/journal": true} // Debian's tmpfiles.d/systemd.conf
	for _, line := range read("tmpfiles.d/regiond-state.conf") {
		owned[strings.Fields(line)[1]] = true
	}
	var mounted []string
	for _, line := range read("fstab") {
		fields := strings.Fields(line)
		if len(fields) != 6 {
			t.Errorf("fstab: %q has %d fields", line, len(fields))
			continue
		}
		source, target := fields[0], fields[1]
		mounted = append(mounted, strings.TrimPrefix(target, "/"))
		if fields[3] == "bind" && (path.Dir(source) != "/var/lib/regiond" || !owned[target]) {
			t.Errorf("fstab: %s on %s: want a folder of the data partition, and an owner for it", source, target)
		}
	}
	points := slices.Clone(mountPoints)
	slices.Sort(points)
	slices.Sort(mounted)
	if !slices.Equal(points, mounted) {
		t.Errorf("mount points %v, fstab has %v", points, mounted)
	}
}
