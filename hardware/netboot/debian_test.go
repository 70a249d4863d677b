//go:build integration

package netboot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// The machines boot the kernel and the iPXE that the images hold: those of Debian 13. The
// packages are downloaded once into the user's cache, from the mirror that the host uses.
const (
	suite         = "trixie"
	kernelPackage = "linux-image-cloud-amd64"
)

func init() {
	prepare = func() error {
		for _, name := range []string{"ipxe", kernelPackage} {
			if err := download(name); err != nil {
				return fmt.Errorf("download Debian package %s of %s: %w", name, suite, err)
			}
		}
		return nil
	}
}

// unpacked is where a downloaded package was unpacked.
func unpacked(name string) (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "regiond-test", suite, name, "root"), err
}

// download and unpack a package with an APT configuration of its own; the keyring is the host's.
func download(name string) error {
	root, err := unpacked(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(root); err == nil {
		return nil
	}
	mirror, err := mirror()
	if err != nil {
		return err
	}
	dir := filepath.Dir(root)
	for _, d := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	sources := "Types: deb\nURIs: " + mirror + "\nSuites: " + suite +
		"\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
	if err := os.WriteFile(filepath.Join(dir, "parts", "suite.sources"), []byte(sources), 0o644); err != nil {
		return err
	}
	apt := func(tool string, args ...string) (string, error) {
		cmd := exec.Command(tool, append([]string{
			"-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=" + dir + "/parts",
			"-o", "Dir::State::Lists=" + dir + "/lists", "-o", "Dir::Cache=" + dir + "/cache",
			"-o", "Dir::State::status=/dev/null", "-o", "APT::Sandbox::User=root",
		}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", tool, args, err, out)
		}
		return string(out), nil
	}
	if _, err := apt("apt-get", "update"); err != nil {
		return err
	}
	if name == kernelPackage { // depends on the kernel of the day
		out, err := apt("apt-cache", "depends", name)
		if err != nil {
			return err
		}
		if name = regexp.MustCompile(`linux-image-[0-9]\S*`).FindString(out); name == "" {
			return errors.New("no kernel in: " + out)
		}
	}
	if _, err := apt("apt-get", "download", name); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("packages %v in %s: %w", debs, dir, err)
	}
	if out, err := exec.Command("dpkg-deb", "-x", debs[0], root+".new").CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w\n%s", err, out)
	}
	return os.Rename(root+".new", root)
}

// mirror is where the host has Debian's main archive from.
func mirror() (string, error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)", "Created-By: Packages", "Component: main").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets (run apt-get update first): %w", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[2] == "Debian" && !strings.Contains(f[1], "-") { // not -security, -updates
			return f[0], nil
		}
	}
	return "", fmt.Errorf("no archive of Debian is configured here: %s", out)
}
