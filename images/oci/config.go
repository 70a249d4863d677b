package oci

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"regiond.dev/regiond/images/debian"
)

// Config configures a build.
type Config struct {
	// Dir is the images folder; component images are in its oci/.
	Dir string
	// Release of OpenStack, one of Releases.
	Release string
	// Mirror of Debian's archive as mmdebstrap takes it. Empty for mmdebstrap's default.
	Mirror string
	// Refresh fetches Debian's packages again, even if the recipe did not change.
	Refresh bool
	// Locked fails the build when package versions differ from the lock file in the source.
	Locked bool
	// Options returns the option data that regiond was built with, for comparison. May be nil.
	Options func(release string) (Options, error)
	// Progress is called for every step, from one goroutine. May be nil.
	Progress func(Event)
	Log      *slog.Logger
}

// Event is a step of a build.
type Event struct {
	// Release whose images are being built.
	Release string
	// Layer being built; empty for a step that concerns all layers.
	Layer string
	// Message for people.
	Message string
}

// Result of a build.
type Result struct {
	Set
	// Reused is true if the images already existed.
	Reused bool `json:"reused"`
	// Changes of package versions against the lock file in the source.
	Changes []debian.Change `json:"changes,omitempty"`
	// OptionChanges are the options that the packages have and regiond's data lacks (+), and vice
	// versa (-), e.g. "+nova.libvirt.virt_type".
	OptionChanges []string `json:"optionChanges,omitempty"`
}

var prerequisites = []debian.Prerequisite{
	{File: "mmdebstrap", Package: "mmdebstrap"},
	{File: debian.Keyring, Package: "debian-archive-keyring"},
	{File: "chroot", Package: "coreutils"},
	{File: "mount", Package: "mount"},
}

func (c *Config) validate() error {
	if !filepath.IsAbs(c.Dir) || strings.Contains(c.Dir, "'") {
		return fmt.Errorf("images folder %q: want an absolute path without quotes", c.Dir)
	}
	return nil
}

func (c *Config) report(layer, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	c.Log.Debug("component images", slog.String("release", c.Release), slog.String("layer", layer), slog.String("message", message))
	if c.Progress != nil {
		c.Progress(Event{Release: c.Release, Layer: layer, Message: message})
	}
}
