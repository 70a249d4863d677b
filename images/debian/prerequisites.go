package debian

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

// Keyring signs Debian's archive.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Prerequisite is a file or program, and Debian's package that has it.
type Prerequisite struct{ File, Package string }

// CheckPrerequisites names everything that is missing at once. uid is the effective user's.
func CheckPrerequisites(uid int, needed []Prerequisite, exists func(path string) bool) error {
	var errs []error
	if uid != 0 {
		errs = append(errs, fmt.Errorf("image build runs as root (chroot, mount); the user id is %d", uid))
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

// Find returns the path of a program in searchPath, and whether it is there.
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

// FileExists is true if something is at path.
func FileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
