package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// searchPath is where programs are looked for, and PATH of those that are run. It is not taken from
// the environment: a shell of `su` lacks the sbin folders, where half of these programs are.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// keyring signs Debian's archive.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// prerequisites are files or programs and Debian's packages that have them.
var prerequisites = []struct{ file, pkg string }{
	{"mmdebstrap", "mmdebstrap"},
	{keyring, "debian-archive-keyring"},
	{"chroot", "coreutils"},
	{"dpkg-deb", "dpkg"},
	{"mcopy", "mtools"},
	{"mke2fs", "e2fsprogs"},
	{"mkfs.vfat", "dosfstools"},
	{"tar", "tar"},
	{"zstd", "zstd"},
}

// checkPrerequisites names everything that is missing at once. uid is the effective user's.
func checkPrerequisites(uid int, exists func(path string) bool) error {
	var errs []error
	if uid != 0 {
		errs = append(errs, fmt.Errorf("image build runs as root (chroot, mount); the user id is %d", uid))
	}
	var missing, packages []string
	for _, p := range prerequisites {
		if _, ok := find(p.file, exists); !ok {
			missing = append(missing, p.file)
			packages = append(packages, p.pkg)
		}
	}
	if len(missing) > 0 {
		slices.Sort(packages)
		errs = append(errs, fmt.Errorf("image build needs %s; install with: apt-get install --no-install-recommends %s",
			strings.Join(missing, ", "), strings.Join(slices.Compact(packages), " ")))
	}
	return errors.Join(errs...)
}

// find returns the path of a program in searchPath.
func find(name string, exists func(string) bool) (string, bool) {
	if filepath.IsAbs(name) {
		return name, exists(name)
	}
	for _, dir := range searchPath {
		if path := filepath.Join(dir, name); exists(path) {
			return path, true
		}
	}
	return "", false
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
