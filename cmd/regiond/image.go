package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/images"
	"regiond.dev/regiond/images/guest"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
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

func newImageCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "image",
		Short: "Build and list the images of servers and of OpenStack's control plane",
		Long: `Build and list images. A node image is Debian with regiond's agent, the kernel and initramfs that install
it over the network, and the network boot loaders. The one that was built last is the current one, which regiond
installs on servers.

Component images are the containers of OpenStack's control plane, one set for each release of OpenStack. regiond
serves the current sets to its hosts.`,
		Args: cobra.NoArgs,
	}
	c.PersistentPreRun = func(*cobra.Command, []string) { ordinaryUmask() }
	c.PersistentFlags().StringVar(&dir, "image-dir", region.DefaultImagesDir, "folder of images (with -f: the region file's spec.images.dir)")
	c.AddCommand(newImageBuild(&dir), newImageList(&dir), newImageRemove(&dir))
	return c
}

func newImageBuild(dir *string) *cobra.Command {
	var output string
	var verbose, withGuest bool
	var selection componentSelection
	config := images.Config{}
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			if !slices.Contains(images.Releases, config.Release) {
				return invalid(fmt.Errorf("--release %q: release of Debian is not known; known: %s", config.Release, strings.Join(images.Releases, ", ")))
			}
			ctx, started := cmd.Context(), time.Now()
			r, err := selection.region(cmd)
			if err != nil {
				return err
			}
			if r != nil && !cmd.Flags().Changed("image-dir") {
				*dir = r.Spec.Images.Dir // where everything else looks for them
			}
			config.Dir = *dir
			config.Log = imageLog(cmd.ErrOrStderr(), verbose)
			report := progressReporter(cmd.ErrOrStderr(), started)
			config.Progress = imageProgress(report)
			releases, err := selection.releases(r)
			if err != nil {
				return err
			}
			var built struct {
				*images.Result
				Components []*oci.Result `json:"components,omitempty"`
				Guest      *guest.Image  `json:"guest,omitempty"`
			}
			if !selection.only {
				if built.Result, err = images.Build(ctx, withPrograms(config)); err != nil {
					return err
				}
				if output == "text" {
					if err := describeBuild(cmd.OutOrStdout(), built.Result, time.Since(started)); err != nil {
						return err
					}
				}
			}
			if withGuest {
				g, err := guest.Build(*dir)
				if err != nil {
					return err
				}
				if built.Guest = &g; output == "text" {
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "test guest\n  %s\n", g.Path); err != nil {
						return err
					}
				}
			}
			components := oci.Config{Dir: config.Dir, Mirror: config.Mirror, Refresh: config.Refresh, Locked: config.Locked, Log: config.Log}
			built.Components, err = buildComponents(ctx, components, releases, report)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, built)
			}
			return describeComponents(cmd.OutOrStdout(), built.Components)
		},
	}
	selection.addFlags(c)
	c.Flags().StringVar(&config.Release, "release", images.Releases[0], "release of Debian of the node image: "+strings.Join(images.Releases, ", "))
	c.Flags().StringVar(&config.Mirror, "mirror", "", "mirror of Debian's archive: its URI, or a file with lines of sources.list, e.g. for security updates too (default: Debian's own)")
	c.Flags().BoolVar(&config.Refresh, "refresh", false, "fetch Debian's packages again")
	c.Flags().BoolVar(&config.Locked, "locked", false, "fail if package versions differ from those that were tested")
	c.Flags().BoolVar(&withGuest, "guest", false, "build the small test guest too, a raw disk for Glance")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what the programs that build it print")
	c.Flags().StringVarP(&output, "output", "o", "text", "format of the result: text or json")
	return c
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

func newImageList(dir *string) *cobra.Command {
	var output string
	var components bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List node images, newest first, and the component images of each release of OpenStack",
		Example: `  regiond image list

  # What keystone's pods are to run
  regiond image list --components -o json | jq -r '.[] | select(.release == "epoxy") | .images.keystone.digest'

  # The kernel of the current image
  regiond image list -o json | jq -r '.[] | select(.current) | .kernelRelease'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			cmd.SilenceUsage = true
			if components {
				return listComponents(cmd.OutOrStdout(), *dir, output)
			}
			list, listErr := images.List(*dir)
			if output == "json" {
				if list == nil {
					list = []images.Image{}
				}
				return errors.Join(writeAs(cmd.OutOrStdout(), output, list), listErr)
			}
			if len(list) == 0 && listErr == nil {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "There is no node image in %s; build one with: regiond image build\n", *dir)
				return errors.Join(err, listComponents(cmd.OutOrStdout(), *dir, output))
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "VERSION\tCURRENT\tBUILT\tKERNEL\tTRANSFER\tLEAST DISK\tINITRAMFS")
			for _, i := range list {
				current := ""
				if i.Current {
					current = "*"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Version, current, i.Built.Format(time.DateTime), i.KernelRelease,
					megabytes(i.TransferBytes), megabytes(i.DiskBytes), megabytes(i.InitramfsBytes))
			}
			return errors.Join(w.Flush(), listErr, listComponents(cmd.OutOrStdout(), *dir, output))
		},
	}
	c.Flags().BoolVar(&components, "components", false, "component images only")
	c.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return c
}

func newImageRemove(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:     "remove VERSION...",
		Short:   "Remove node images; the current one is refused",
		Example: `  regiond image remove trixie-1f3a9c0b7d42`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, versions []string) error {
			cmd.SilenceUsage = true
			var errs []error
			for _, version := range versions {
				if err := images.Remove(cmd.Context(), *dir, version); err != nil {
					errs = append(errs, err)
					continue
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "image %s removed\n", version)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

// megabytes are those of 10^6 bytes, as disks and networks are measured.
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
