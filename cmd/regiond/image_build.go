package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/images"
	"regiond.dev/regiond/images/guest"
	"regiond.dev/regiond/images/oci"
)

// stageTitles say what a stage of an image's build does.
var stageTitles = map[string]string{
	images.StagePackages:   "install Debian's packages",
	images.StageSystem:     "add regiond's programs and configuration",
	images.StageInitramfs:  "make the initramfs",
	images.StageESP:        "make the EFI system partition",
	images.StageFilesystem: "make the root and data file systems",
	images.StageChunks:     "cut and compress",
}

// imageBuild is what the flags of image build say.
type imageBuild struct {
	dir                *string
	output             string
	verbose, withGuest bool
	selection          componentSelection
	config             images.Config
}

func newImageBuild(dir *string) *cobra.Command {
	b := imageBuild{dir: dir}
	c := &cobra.Command{
		Use:   "build",
		Short: "Build missing images, and make them the current ones",
		Long: `Build missing images, and make them the current ones: the node image and, given the
region's file, the component images of the OpenStack releases in it. --components builds component images only.
It runs as root and needs no container engine; it names missing programs with the packages that have them.
The node image takes about a minute, the images of a release of OpenStack four.

Debian's packages are fetched once. --refresh fetches them again, which is how images get security updates. What
differs from the versions that this regiond was tested with is printed; --locked refuses it.`,
		Example: `  # The node image
  regiond image build

  # All that a region needs
  regiond image build -f region.yaml

  # The component images of one release of OpenStack
  regiond image build --components --openstack epoxy

  # With Debian's latest security updates
  regiond image build --refresh

  # Without the Internet: a file with apt's lines for the release, its updates and its security updates
  regiond image build --refresh --mirror /etc/regiond/debian.list

  # For a program to read
  regiond image build -o json | jq -r .path`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	b.selection.addFlags(c)
	c.Flags().StringVar(&b.config.Release, "release", images.Releases[0], "release of Debian of the node image: "+strings.Join(images.Releases, ", "))
	c.Flags().StringVar(&b.config.Mirror, "mirror", "", "mirror of Debian's archive: its URI, or a file with lines of sources.list, e.g. for security updates too (default: Debian's own)")
	c.Flags().BoolVar(&b.config.Refresh, "refresh", false, "fetch Debian's packages again")
	c.Flags().BoolVar(&b.config.Locked, "locked", false, "fail if package versions differ from those that were tested")
	c.Flags().BoolVar(&b.withGuest, "guest", false, "build the small test guest too, a raw disk for Glance")
	c.Flags().BoolVarP(&b.verbose, "verbose", "v", false, "show what the programs that build it print")
	c.Flags().StringVarP(&b.output, "output", "o", "text", "format of the result: text or json")
	return c
}

// builtImages are what a build prints as JSON.
type builtImages struct {
	*images.Result
	Components []*oci.Result `json:"components,omitempty"`
	Guest      *guest.Image  `json:"guest,omitempty"`
}

func (b *imageBuild) run(cmd *cobra.Command) error {
	if err := checkFormat(b.output, "text", "json"); err != nil {
		return err
	}
	if !slices.Contains(images.Releases, b.config.Release) {
		return invalid(fmt.Errorf("--release %q: release of Debian is not known; known: %s", b.config.Release, strings.Join(images.Releases, ", ")))
	}
	r, err := b.selection.region(cmd)
	if err != nil {
		return err
	}
	if r != nil && !cmd.Flags().Changed("image-dir") {
		*b.dir = r.Spec.Images.Dir // where everything else looks for them
	}
	releases, err := b.selection.releases(r)
	if err != nil {
		return err
	}
	b.config.Dir = *b.dir
	b.config.Log = imageLog(cmd.ErrOrStderr(), b.verbose)
	report := progressReporter(cmd.ErrOrStderr(), time.Now())
	b.config.Progress = imageProgress(report)
	var built builtImages
	if !b.selection.only {
		if built.Result, err = b.node(cmd); err != nil {
			return err
		}
	}
	if b.withGuest {
		if built.Guest, err = b.guest(cmd); err != nil {
			return err
		}
	}
	components := oci.Config{Dir: b.config.Dir, Mirror: b.config.Mirror, Refresh: b.config.Refresh, Locked: b.config.Locked, Log: b.config.Log}
	built.Components, err = buildComponents(cmd.Context(), components, releases, report)
	if err != nil {
		return err
	}
	if b.output == "json" {
		return writeAs(cmd.OutOrStdout(), b.output, built)
	}
	return describeComponents(cmd.OutOrStdout(), built.Components)
}

// node builds the node image and, as text, says at once what became of it: component images take
// minutes more.
func (b *imageBuild) node(cmd *cobra.Command) (*images.Result, error) {
	started := time.Now()
	result, err := images.Build(cmd.Context(), withPrograms(b.config))
	if err == nil && b.output == "text" {
		err = describeBuild(cmd.OutOrStdout(), result, time.Since(started))
	}
	return result, err
}

func (b *imageBuild) guest(cmd *cobra.Command) (*guest.Image, error) {
	g, err := guest.Build(b.config.Dir)
	if err == nil && b.output == "text" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "test guest\n  %s\n", g.Path)
	}
	return &g, err
}

// withPrograms gives an image the programs that this binary carries.
func withPrograms(config images.Config) images.Config {
	config.Agent = func() (io.ReadCloser, error) { return payload.Open(payload.RegiondNode) }
	config.Init = func() (io.ReadCloser, error) { return payload.Open(payload.RegiondInit) }
	return config
}

// ensureNodeImage builds the node image if it is missing and returns the path of its kernel.
func ensureNodeImage(ctx context.Context, dir string, report func(format string, args ...any)) (kernel string, err error) {
	result, err := images.Build(ctx, withPrograms(images.Config{
		Dir: dir, Release: images.Releases[0], Log: imageLog(os.Stderr, false),
		Progress: imageProgress(func(format string, args ...any) { report("image: %s", fmt.Sprintf(format, args...)) }),
	}))
	if err != nil {
		return "", err
	}
	if result.Reused {
		report("image: %s is there", result.Version)
	} else {
		report("image: %s built, %s to transfer", result.Version, megabytes(result.TransferBytes))
	}
	return filepath.Join(result.Path, images.KernelFile), nil
}

// imageProgress reports stages, and what of their messages a person wants to see.
func imageProgress(report func(format string, args ...any)) func(images.Event) {
	return func(e images.Event) {
		if title := stageTitles[e.Stage]; e.Message == "" && title != "" {
			report("%s", title)
		} else if e.Message != "" {
			report("  %s", e.Message)
		}
	}
}

func imageLog(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// describeBuild ends a build on a terminal. Of the changes against the lock file a few are shown.
func describeBuild(w io.Writer, r *images.Result, took time.Duration) error {
	const most = 10
	verb := fmt.Sprintf("built in %.1fs", took.Seconds())
	if r.Reused {
		verb = "was there already"
	}
	lines := []string{fmt.Sprintf("image %s %s: %s to transfer, initramfs %s, kernel %s", r.Version, verb, megabytes(r.TransferBytes), megabytes(r.InitramfsBytes), r.KernelRelease), "  " + r.Path}
	if len(r.Changes) > 0 {
		lines = append(lines, fmt.Sprintf("%d packages differ from the versions that were tested:", len(r.Changes)))
		for _, change := range r.Changes[:min(most, len(r.Changes))] {
			lines = append(lines, "  "+change.String())
		}
		if more := len(r.Changes) - most; more > 0 {
			lines = append(lines, fmt.Sprintf("  and %d more; all are in the output of -o json", more))
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
