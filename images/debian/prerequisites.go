package debian

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// searchPath is where programs are searched for, and the PATH that they run with. It does not come
// from the environment: a shell of `su` lacks the sbin folders, which hold half of these programs.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Keyring holds the keys that sign Debian's archive.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Prerequisite is a file or program, and the Debian package that provides it.
type Prerequisite struct{ File, Package string }

// CheckPrerequisites reports everything that is missing at once. uid is the effective user id.
func CheckPrerequisites(uid int, needed []Prerequisite, exists func(path string) bool) error {
	var errs []error
	if uid != 0 {
		errs = append(errs, fmt.Errorf("image build must run as root (chroot, mount), not as user id %d", uid))
	}
	var missing, packages []string
	for _, p := range needed {
		if _, ok := Find(p.File, exists); !ok {
			missing = append(missing, p.File)
			packages = append(packages, p.Package)
		}
	}
	if len(missing) > 0 {
		slices.Sort(packages)
		errs = append(errs, fmt.Errorf("image build needs %s; install with: apt-get install --no-install-recommends %s",
			strings.Join(missing, ", "), strings.Join(slices.Compact(packages), " ")))
	}
	return errors.Join(errs...)
}

// Find returns the path of a program in searchPath, and whether it exists.
func Find(name string, exists func(string) bool) (string, bool) {
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

// FileExists reports whether path exists.
func FileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
