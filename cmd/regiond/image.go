package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/images"
	"regiond.dev/regiond/region"
)

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
