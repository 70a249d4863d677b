package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/images"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab"
)

func newLabUp(f *labFlags) *cobra.Command {
	var file string
	var timeout time.Duration
	imageDir := region.DefaultImagesDir
	c := &cobra.Command{
		Use:   "up",
		Short: "Bring the lab up and wait until everything in it is Ready",
		Long: `Bring the lab up and wait until every server is Ready and OpenStack has passed all its gates. What runs already is left
alone: run it again after any failure. Missing images are built first, in their own time.`,
		Example: `  regiond lab up
  regiond lab up --lab ci --config lab.yaml --timeout 15m

  # OpenStack with nodes that are namespaces instead of virtual servers: there in seconds
  printf '%s\n' 'apiVersion: regiond.dev/v1alpha1' 'kind: Lab' \
    'spec: {openstack: {}, machines: [{name: n1, kind: namespace}, {name: n2, kind: namespace}]}' > lab.yaml
  regiond lab up --lab fast --config lab.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Choose(f.root, f.name, file)
			if err != nil {
				return invalid(err)
			}
			if err := lab.CheckPrerequisites(); err != nil {
				return err
			}
			started := time.Now()
			report := progressReporter(cmd.OutOrStdout(), started)
			report("lab %s: state in %s/%s", l.Name, l.Root, l.Name)
			config, err := labImages(cmd.Context(), l, imageDir, report)
			if err != nil {
				return err
			}
			if err := ignoreProxy(); err != nil { // for the seed host and the nodes, which this process starts
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := bringUp(ctx, l, config); err != nil {
				return fmt.Errorf("lab %s is not up after %s; `regiond lab up` continues:\n%w", l.Name, time.Since(started).Round(time.Second), err)
			}
			report("lab %s is up: `regiond lab status`, `regiond lab exec -- regiond status`", l.Name)
			return nil
		},
	}
	c.Flags().StringVar(&file, "config", "", "lab.yaml (default: OpenStack on two servers, UEFI, 2 CPUs, 3Gi, one disk of 12Gi)")
	c.Flags().StringVarP(&file, "file", "f", "", "lab.yaml")
	_ = c.Flags().MarkDeprecated("file", "use --config: elsewhere -f is a region file") // the flag exists
	c.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long everything may take once the images are there")
	c.Flags().StringVar(&imageDir, "image-dir", imageDir, "folder of images; missing ones are built")
	return c
}

// bringUp is all of `lab up` after its images: each step leaves alone what is there.
func bringUp(ctx context.Context, l lab.Lab, config lab.UpConfig) error {
	if err := l.Up(ctx, config); err != nil {
		return err
	}
	return l.Wait(ctx, config)
}

// labImages makes the images that a lab needs and are missing.
func labImages(ctx context.Context, l lab.Lab, imageDir string, report func(string, ...any)) (lab.UpConfig, error) {
	c := lab.UpConfig{ImageDir: imageDir, Report: report}
	var err error
	if c.Program, err = os.Executable(); err != nil {
		return c, err
	}
	if c.Kernel, err = ensureNodeImage(ctx, imageDir, report); err != nil {
		return c, err
	}
	if l.Spec.HasNamespaces() {
		version := filepath.Base(filepath.Dir(c.Kernel))
		if c.Rootfs, err = lab.EnsureRootfs(l.Root, imageDir, version, func(dir string) error {
			report("image: %s is unpacked for namespace nodes", version)
			_, err := images.Unpack(ctx, withPrograms(images.Config{Dir: imageDir, Release: images.Releases[0], Log: imageLog(os.Stderr, false)}), dir)
			return err
		}); err != nil {
			return c, err
		}
	}
	if release := l.Spec.Release(); release != "" {
		err = ensureComponentImages(ctx, imageDir, []string{string(release)}, report)
	}
	return c, err
}
