package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// componentSelection says which component images a build makes.
type componentSelection struct {
	// only: and no node image.
	only      bool
	openstack []string
	file      string
}

func (s *componentSelection) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&s.only, "components", false, "build component images only")
	c.Flags().StringSliceVar(&s.openstack, "openstack", nil,
		"releases of OpenStack whose component images are built: "+strings.Join(oci.Releases(), ", ")+", all")
	c.Flags().StringVarP(&s.file, "file", "f", "", "region file, - for standard input: build what its OpenStack clusters need, where it says")
}

// region of the file that was named, nil if none was.
func (s *componentSelection) region(cmd *cobra.Command) (*region.Region, error) {
	if s.file == "" {
		return nil, nil
	}
	r, _, err := loadRegion(cmd, s.file)
	return r, err
}

// releases of OpenStack to build. Asked for none, --components means the default release.
func (s *componentSelection) releases(r *region.Region) ([]string, error) {
	if slices.Contains(s.openstack, "all") {
		return oci.Releases(), nil
	}
	out := slices.Clone(s.openstack)
	if r != nil {
		for _, cluster := range r.Spec.OpenStack.Clusters {
			out = append(out, string(cluster.Release))
		}
	} else if len(out) == 0 && s.only {
		out = oci.Releases()[:1]
	}
	slices.Sort(out)
	out = slices.Compact(out)
	for _, release := range out {
		if !slices.Contains(oci.Releases(), release) {
			return nil, invalid(fmt.Errorf("--openstack %q: release of OpenStack is not known; known: %s, all", release, strings.Join(oci.Releases(), ", ")))
		}
	}
	return out, nil
}

// buildComponents builds the sets of releases, one after the other.
func buildComponents(ctx context.Context, config oci.Config, releases []string, report func(format string, args ...any)) ([]*oci.Result, error) {
	config.Options = openstack.KnownOptions
	config.Progress = func(e oci.Event) { report("OpenStack %s: %s", e.Release, e.Message) }
	var out []*oci.Result
	for _, release := range releases {
		config.Release = release
		result, err := oci.Build(ctx, config)
		if err != nil {
			return nil, err
		}
		out = append(out, result)
	}
	return out, nil
}

// ensureComponentImages builds the component images of releases if they are missing.
func ensureComponentImages(ctx context.Context, dir string, releases []string, report func(format string, args ...any)) error {
	results, err := buildComponents(ctx, oci.Config{Dir: dir, Log: imageLog(io.Discard, false)}, releases, report)
	for _, r := range results {
		if r.Reused {
			report("images of OpenStack %s are there", r.Release)
		}
	}
	return err
}

// describeComponents ends a build on a terminal. Of the changes a few are shown.
func describeComponents(w io.Writer, results []*oci.Result) error {
	const most = 10
	for _, r := range results {
		verb := "built"
		if r.Reused {
			verb = "were there already"
		}
		lines := []string{fmt.Sprintf("%d images of OpenStack %s, Debian %s, %s", len(r.Images), r.Release, r.Debian, verb)}
		lines = append(lines, few(fmt.Sprintf("%d packages differ from the versions that were tested:", len(r.Changes)), r.Changes, most)...)
		lines = append(lines, few(fmt.Sprintf("%d options of these packages are more (+) or less (-) than regiond knows:", len(r.OptionChanges)),
			r.OptionChanges, most)...)
		if _, err := fmt.Fprintln(w, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// few is a title and the first lines of a list, nothing if the list is empty.
func few[T any](title string, list []T, most int) []string {
	if len(list) == 0 {
		return nil
	}
	lines := []string{title}
	for _, item := range list[:min(most, len(list))] {
		lines = append(lines, fmt.Sprintf("  %v", item))
	}
	if more := len(list) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more; all are in the output of -o json", more))
	}
	return lines
}

func listComponents(w io.Writer, dir, output string) error {
	sets, listErr := oci.List(dir)
	if output == "json" {
		if sets == nil {
			sets = []oci.Set{}
		}
		return errors.Join(writeAs(w, output, sets), listErr)
	}
	for _, set := range sets {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "\nOPENSTACK %s\tBUILT %s\tDEBIAN %s\t\n", set.Release, set.Built.Format(time.DateTime), set.Debian)
		fmt.Fprintln(t, "IMAGE\tVERSION\tSIZE\tDIGEST")
		for _, name := range set.Names() {
			i := set.Images[name]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, i.Version, megabytes(i.Bytes), i.Digest)
		}
		if err := t.Flush(); err != nil {
			return errors.Join(err, listErr)
		}
	}
	return listErr
}
