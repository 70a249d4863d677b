package images

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Releases of Debian that images are built from. The first is the default.
var Releases = []string{"trixie"}

// Config configures a build.
type Config struct {
	// Dir is the images folder, an absolute path. The node's images are in its node/.
	Dir string
	// Release of Debian, one of Releases.
	Release string
	// Mirror of Debian's archive as mmdebstrap takes it. Empty for mmdebstrap's default.
	Mirror string
	// Agent and Init open the static programs regiond-node and regiond-init.
	Agent, Init func() (io.ReadCloser, error)
	// Refresh fetches Debian's packages again, even if the recipe did not change.
	Refresh bool
	// Locked fails the build when package versions differ from the lock file in the source.
	Locked bool
	// Progress is called for every step, from one goroutine. May be nil.
	Progress func(Event)
	Log      *slog.Logger
}

// Event is a step of a build.
type Event struct {
	// Stage is one of Stages.
	Stage string
	// Message about the stage; empty when it starts.
	Message string
}

// Stages of a build, in order. Stages that the cache makes unnecessary are not reported.
var Stages = []string{StageCheck, StagePackages, StageSystem, StageInitramfs, StageESP, StageFilesystem, StageChunks}

// Names of stages.
const (
	StageCheck      = "check"      // prerequisites and the cache
	StagePackages   = "packages"   // mmdebstrap
	StageSystem     = "system"     // regiond's files into the root file system
	StageInitramfs  = "initramfs"  // modules and regiond-init
	StageESP        = "esp"        // EFI system partition
	StageFilesystem = "filesystem" // root and data partitions
	StageChunks     = "chunks"     // compress
)

func (c *Config) validate() error {
	var errs []error
	if !strings.HasPrefix(c.Dir, "/") {
		errs = append(errs, fmt.Errorf("images folder %q: want an absolute path", c.Dir))
	}
	if _, err := recipeOf(c.Release); err != nil {
		errs = append(errs, err)
	}
	if c.Agent == nil || c.Init == nil {
		errs = append(errs, errors.New("image build: the programs regiond-node and regiond-init are missing"))
	}
	return errors.Join(errs...)
}

func (c *Config) report(stage, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	c.Log.Debug("image build", slog.String("stage", stage), slog.String("message", message))
	if c.Progress != nil {
		c.Progress(Event{Stage: stage, Message: message})
	}
}
