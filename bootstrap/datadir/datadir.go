// Package datadir is the table of the entries in a control host's data directory: who creates each
// entry, its mode, its content, and whether a backup needs it. Every path in the directory begins
// with a Name of this table, so that reset, which removes the entries, knows all of them.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"regiond.dev/regiond/machine/atomicfile"
)

// Name is the name of an entry, directly in the data directory.
type Name string

// Names of all entries.
const (
	AdminKubeconfig Name = "admin.kubeconfig"
	Backup          Name = "backup"
	Bin             Name = "bin"
	CNI             Name = "cni"
	Config          Name = "config"
	Containerd      Name = "containerd"
	Etcd            Name = "etcd"
	InstallRecord   Name = "install.json"
	Journal         Name = "journal.db"
	Kubelet         Name = "kubelet"
	Log             Name = "log"
	Marker          Name = "region.json"
	OpenStack       Name = "openstack"
	PKI             Name = "pki"
	Restoring       Name = "restore.json"
	Run             Name = "run"
)

// In returns the path of the entry, or of something below it.
func (n Name) In(dataDir string, elements ...string) string {
	return filepath.Join(append([]string{dataDir, string(n)}, elements...)...)
}

// Entry is one row of the table. Entries belong to root; below OpenStack's folder the services'
// users own their files.
type Entry struct {
	Name Name
	// Owner is the package that creates it.
	Owner string
	// Mode of the entry, with fs.ModeDir for a folder.
	Mode fs.FileMode
	// Holds says what is lost if it is removed.
	Holds string
	// Backup tells whether a backup needs it: nothing else on this host or elsewhere can bring it
	// back.
	Backup bool
}

// entries in the order in which a reset removes them. An interrupted reset needs the last ones to
// resume.
var entries = []Entry{
	{AdminKubeconfig, "bootstrap/kube/cluster", 0o600, "the administrator's access to Kubernetes", false},
	{Backup, "bootstrap/backup", fs.ModeDir | 0o700, "parts of a backup that is being made", false},
	{Bin, "bootstrap/payload", fs.ModeDir | 0o755, "programs that pods run with", false},
	{CNI, "bootstrap/kube/cluster", fs.ModeDir | 0o755, "the pods' network and addresses", false},
	{Containerd, "bootstrap/kube/cluster", fs.ModeDir | 0o711, "images and containers", false},
	{OpenStack, "components", fs.ModeDir | 0o711, "OpenStack's databases, messages and images", true},
	{Etcd, "bootstrap/kube/cluster", fs.ModeDir | 0o700, "all objects of Kubernetes, passwords among them", true},
	{Kubelet, "bootstrap/kube/cluster", fs.ModeDir | 0o755, "volumes of pods", false},
	{Log, "bootstrap", fs.ModeDir | 0o750, "logs of the control plane and of pods", false},
	{Journal, "bootstrap/journal", 0o600, "DHCP leases and the record of this host", true},
	{Config, "bootstrap/kube/cluster", fs.ModeDir | 0o700, "the components' configuration, written at each start", false},
	{PKI, "bootstrap/pki", fs.ModeDir | 0o700, "certificate authorities, and the key of Secrets in etcd", true},
	{Run, "bootstrap/datadir", fs.ModeDir | 0o755, "lock, socket and pid files", false},
	{InstallRecord, "bootstrap/install", 0o600, "the record of installed files", false}, // of this host's; another has none of them
	{Restoring, "bootstrap/backup", 0o600, "the mark of a restore that has not ended", false},
	{Marker, "bootstrap/datadir", 0o644, "the mark that the directory is regiond's", true},
}

// Entries returns all rows in the order in which a reset removes them.
func Entries() []Entry { return slices.Clone(entries) }

// Find returns the row of an entry in a data directory by its file name. Temporary files that a
// killed regiond left behind belong to the row of the file that it was writing.
func Find(fileName string) (Entry, bool) {
	for _, e := range entries {
		if fileName == string(e.Name) {
			return e, true
		}
		if temporary, err := filepath.Match(atomicfile.Temporary(string(e.Name)), fileName); err == nil && temporary {
			return e, true
		}
	}
	// Temporary files of the administrator's kubeconfig by versions until December 2026.
	for _, pattern := range []string{".pki-tmp-*", ".new-*"} {
		if old, err := filepath.Match(pattern, fileName); err == nil && old {
			return Find(string(AdminKubeconfig))
		}
	}
	return Entry{}, false
}

// Make creates a folder of the table, or repairs its mode, which a root shell's umask may have
// narrowed.
func (n Name) Make(dataDir string) error {
	e, ok := Find(string(n))
	if !ok || !e.Mode.IsDir() {
		return fmt.Errorf("data directory: %q is not a folder of the table", n)
	}
	path := n.In(dataDir)
	if err := os.MkdirAll(path, e.Mode.Perm()); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := os.Chmod(path, e.Mode.Perm()); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// Resolve follows the symbolic links in the path of a data directory, which need not exist yet. The
// kernel reports mounts by their real path, so everything that is started or removed uses it.
func Resolve(dataDir string) (string, error) {
	path, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("data directory %s: %w", dataDir, err)
	}
	missing := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, missing), nil
		}
		if _, lerr := os.Lstat(path); lerr == nil || !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("data directory %s: %w; repair the link %s", dataDir, err, path)
		}
		path, missing = filepath.Dir(path), filepath.Join(filepath.Base(path), missing)
	}
}
