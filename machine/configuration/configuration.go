// Package configuration is what a host is to run: files and the services that read them. The control plane renders it into a
// Secret, the host's agent applies it. It imports nothing beyond the standard library.
package configuration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Where a host finds its configuration: the Secret with the host's own name in the namespace of hosts, under this key.
const SecretKey = "configuration.json"

// MaxSize of an encoded configuration in bytes. A Secret holds 1 MiB (Kubernetes' MaxSecretSize).
const MaxSize = 1 << 20

// Version of the format that Encode writes. Decode reads this one and all before it, and refuses a
// later one and fields that it does not know: a host that left out what it does not know would
// attest a configuration that it does not run. A field that is added raises the version; so does
// another way to compute Configuration.Digest, with which a host attests what a service was started
// with.
//
// Version 1 has no field for the version: so the digests of what was stored before there was one stay what they are.
const Version = 1

// ErrUnknown says that a configuration is in a format that this program does not know, or only in part.
var ErrUnknown = errors.New("configuration in an unknown format")

// Configuration of a host. Equal configurations have equal encodings: Files are sorted by path, Services are in start order.
type Configuration struct {
	// Version of the format; 0 stands for 1.
	Version  int       `json:"version,omitempty"`
	Files    []File    `json:"files"`
	Services []Service `json:"services"`
}

// File on the host.
type File struct {
	// Path, absolute and clean.
	Path string `json:"path"`
	// Mode in octal, e.g. "0640".
	Mode string `json:"mode"`
	// Owner and Group by name, as the host's /etc/passwd and /etc/group have them.
	Owner   string `json:"owner"`
	Group   string `json:"group"`
	Content string `json:"content"`
	// Network is true for a file that can cut the host off from its control plane: after it changed the agent must reach the API
	// server again within ProbeSeconds, or it puts all files back and says so.
	Network bool `json:"network,omitempty"`
}

// ProbeSeconds is how long a changed network may take until the API server answers.
const ProbeSeconds = 60

// Service is a systemd unit that is to be enabled and running. Units that are no longer in the configuration, but were in the one
// before, are stopped and disabled.
type Service struct {
	// Name of the unit, e.g. nova-compute.service.
	Name string `json:"name"`
	// Files that the service reads at its start, by path, those of its unit included. It is restarted when one of them changed.
	Files []string `json:"files,omitempty"`
	// Reload is true for a service that takes its files over by a reload.
	Reload bool `json:"reload,omitempty"`
	// Oneshot is true for a unit that does its work and ends (RemainAfterExit=yes).
	Oneshot bool `json:"oneshot,omitempty"`
}

// Encode returns the configuration as it is stored, and its digest: the SHA-256 of that in hex.
func (c Configuration) Encode() (content []byte, digest string, err error) {
	if err := c.Check(); err != nil {
		return nil, "", err
	}
	if c.Version == Version {
		c.Version = 0
	}
	content, err = json.Marshal(c)
	if err != nil {
		return nil, "", err
	}
	if len(content) > MaxSize {
		return nil, "", fmt.Errorf("configuration has %d bytes, more than the %d that a Secret holds", len(content), MaxSize)
	}
	sum := sha256.Sum256(content)
	return content, hex.EncodeToString(sum[:]), nil
}

// Decode reads what Encode wrote.
func Decode(content []byte) (c Configuration, digest string, err error) {
	if len(content) > MaxSize {
		return c, "", fmt.Errorf("configuration has %d bytes, more than %d", len(content), MaxSize)
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, "", fmt.Errorf("configuration: %w", err)
	}
	if c.Version < 0 || c.Version > Version {
		return c, "", fmt.Errorf("%w: it has version %d, and this program reads versions up to %d", ErrUnknown, c.Version, Version)
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&Configuration{}); err != nil {
		return c, "", fmt.Errorf("%w: %w", ErrUnknown, err) // it is JSON with all types right, so that is all that there can be
	}
	sum := sha256.Sum256(content)
	return c, hex.EncodeToString(sum[:]), c.Check()
}

// Digest of what a service reads: the SHA-256 over path, mode, owner, group and content of its files, in hex.
func (c Configuration) Digest(s Service) string {
	h := sha256.New()
	for _, f := range c.Files {
		for _, p := range s.Files {
			if p == f.Path {
				// Writing to a hash does not fail (hash.Hash).
				fmt.Fprintf(h, "%q %q %q %q %d\n%s\n", f.Path, f.Mode, f.Owner, f.Group, len(f.Content), f.Content)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// FileMode of a file.
func (f File) FileMode() (fs.FileMode, error) {
	m, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil || m > 0o777 {
		return 0, fmt.Errorf("%s: mode %q is not a file mode, e.g. 0640", f.Path, f.Mode)
	}
	return fs.FileMode(m), nil
}

var (
	unitName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9@_.-]{0,200}\.(service|socket|timer|target)$`)
	userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

// Check says all that is wrong with a configuration.
func (c Configuration) Check() error {
	var errs []error
	known, last := map[string]bool{}, ""
	for _, f := range c.Files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" || strings.ContainsRune(f.Path, 0) {
			errs = append(errs, fmt.Errorf("file %q: not an absolute, clean path", f.Path))
		}
		if f.Path <= last {
			errs = append(errs, fmt.Errorf("file %q: not in order, or listed twice", f.Path))
		}
		last = f.Path
		known[f.Path] = true
		if _, err := f.FileMode(); err != nil {
			errs = append(errs, err)
		}
		if !userName.MatchString(f.Owner) || !userName.MatchString(f.Group) {
			errs = append(errs, fmt.Errorf("file %q: owner %q, group %q: not both names", f.Path, f.Owner, f.Group))
		}
	}
	services := map[string]bool{}
	for _, s := range c.Services {
		if !unitName.MatchString(s.Name) {
			errs = append(errs, fmt.Errorf("service %q: not the name of a unit", s.Name))
		}
		if services[s.Name] {
			errs = append(errs, fmt.Errorf("service %q is listed twice", s.Name))
		}
		services[s.Name] = true
		for _, p := range s.Files {
			if !known[p] {
				errs = append(errs, fmt.Errorf("service %s reads %s, which is not among the files", s.Name, p))
			}
		}
	}
	return errors.Join(errs...)
}
