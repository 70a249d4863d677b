package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/images"
)

const defaultImageDir = images.DefaultDir

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
		Short: "Build and list the operating system images of servers",
		Long: `Build and list the operating system images of servers. An image is Debian with regiond's agent, the
kernel and initramfs that install it over the network, and the network boot loaders. The one that was built last
is the current one, which regiond installs on servers.`,
		Args: cobra.NoArgs,
	}
	c.PersistentFlags().StringVar(&dir, "image-dir", defaultImageDir, "folder of images")
	c.AddCommand(newImageBuild(&dir), newImageList(&dir), newImageRemove(&dir))
	return c
}

func newImageBuild(dir *string) *cobra.Command {
	var output string
	var verbose bool
	config := images.Config{}
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the node image, unless it is there already, and make it the current one",
		Long: `Build the node image, unless it is there already, and make it the current one. Runs as root, without a
container engine, and takes about a minute; programs that are missing are named with the packages that have them.

Debian's packages are fetched once and kept. --refresh fetches them again, which is how an image gets security
updates. What differs from the versions that this regiond was tested with is printed; --locked refuses it.`,
		Example: `  # Build what is missing
  regiond image build

  # With Debian's latest security updates, from a mirror nearby
  regiond image build --refresh --mirror http://mirror.example.net/debian

  # For a program to read
  regiond image build -o json | jq -r .path`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			started := time.Now()
			config.Dir = *dir
			config.Log = imageLog(cmd.ErrOrStderr(), verbose)
			config.Progress = imageProgress(func(format string, args ...any) {
				fmt.Fprintf(cmd.ErrOrStderr(), "[%6.1fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
			})
			result, err := buildImage(ctx, config)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, result)
			}
			return describeBuild(cmd.OutOrStdout(), result, time.Since(started))
		},
	}
	c.Flags().StringVar(&config.Release, "release", images.Releases[0], "release of Debian: "+strings.Join(images.Releases, ", "))
	c.Flags().StringVar(&config.Mirror, "mirror", "", "mirror of Debian's archive (default: mmdebstrap's)")
	c.Flags().BoolVar(&config.Refresh, "refresh", false, "fetch Debian's packages again")
	c.Flags().BoolVar(&config.Locked, "locked", false, "fail if package versions differ from those that were tested")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what the programs that build it print")
	c.Flags().StringVarP(&output, "output", "o", "text", "format of the result: text or json")
	return c
}

// buildImage builds an image with the programs that this binary carries.
func buildImage(ctx context.Context, config images.Config) (*images.Result, error) {
	config.Agent = func() (io.ReadCloser, error) { return payload.Open(payload.RegiondNode) }
	config.Init = func() (io.ReadCloser, error) { return payload.Open(payload.RegiondInit) }
	return images.Build(ctx, config)
}

// ensureNodeImage builds the node image if it is missing and returns the path of its kernel.
func ensureNodeImage(ctx context.Context, dir string, report func(format string, args ...any)) (kernel string, err error) {
	result, err := buildImage(ctx, images.Config{
		Dir: dir, Release: images.Releases[0], Log: imageLog(os.Stderr, false),
		Progress: imageProgress(func(format string, args ...any) { report("image: %s", fmt.Sprintf(format, args...)) }),
	})
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
	c := &cobra.Command{
		Use:   "list",
		Short: "List images, newest first",
		Example: `  regiond image list

  # The kernel of the current image
  regiond image list -o json | jq -r '.[] | select(.current) | .kernelRelease'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			cmd.SilenceUsage = true
			list, listErr := images.List(*dir)
			if output == "json" {
				if list == nil {
					list = []images.Image{}
				}
				return errors.Join(writeAs(cmd.OutOrStdout(), output, list), listErr)
			}
			if len(list) == 0 && listErr == nil {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "There is no image in %s; build one with: regiond image build\n", *dir)
				return err
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
			return errors.Join(w.Flush(), listErr)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return c
}

func newImageRemove(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:     "remove VERSION...",
		Short:   "Remove images; the current one is refused",
		Example: `  regiond image remove trixie-1f3a9c0b7d42`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, versions []string) error {
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			var errs []error
			for _, version := range versions {
				if err := images.Remove(ctx, *dir, version); err != nil {
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
