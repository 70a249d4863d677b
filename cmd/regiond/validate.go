package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region/check"
)

func newValidateCommand() *cobra.Command {
	var file, output string
	var offline bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a region file and report everything that is wrong with it",
		Long: `Check a region file and report everything that is wrong with it at once: unknown
fields, wrong types, values that contradict each other, options that OpenStack does not
have or values that it would not take, Kustomize patches that fit nothing, and credential
files that are missing or may be read by others. Nothing is changed and no machine is
contacted. Credential files and patches are on the seed host: elsewhere, check --offline.

Each problem is one line, FILE:LINE:COLUMN: FIELD: what is wrong; what would be right.
The exit status is 0 when the file is valid, warnings included, and 3 when it is not.`,
		Example: `  # Check region.yaml on the seed host
  regiond validate -f region.yaml

  # Check on a laptop or in CI, where the files of the seed host are not at hand
  regiond validate -f region.yaml --offline

  # Check what another program writes, for a program to read
  generate-region | regiond validate -f - --offline -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			cmd.SilenceUsage = true // from here on the command line is right and the file may be wrong
			data, name, err := readRegionFile(cmd, file)
			if err != nil {
				return err
			}
			problems, err := validateRegion(data, name, offline)
			if err != nil {
				return err
			}
			if output == "json" {
				err = problems.WriteJSON(cmd.OutOrStdout(), name)
			} else {
				err = problems.WriteText(cmd.OutOrStdout())
			}
			if err != nil {
				return fmt.Errorf("writing the report: %w", err)
			}
			if problems.Err() != nil {
				return invalid(errors.New(problems.Summary(name)))
			}
			if output == "text" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), problems.Summary(name))
			}
			return err
		},
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format of the report: text or json")
	cmd.Flags().BoolVar(&offline, "offline", false, "do not look for credential files and patches on this machine")
	return cmd
}

// validateRegion returns the problems of a region file and, unless offline, of the files it refers
// to.
func validateRegion(data []byte, name string, offline bool) (check.Problems, error) {
	doc, err := check.Load(data, name)
	var problems check.Problems
	if err != nil && !errors.As(err, &problems) {
		return nil, err
	}
	patches := openstack.ReadPatches
	if offline {
		patches = nil
	}
	more, err := openstack.Check(doc, patches)
	if err != nil {
		return nil, err
	}
	problems = problems.Merge(more)
	if !offline {
		problems = problems.Merge(doc.CheckSecretFiles(os.Stat))
	}
	return problems, nil
}

// loadChecked reads a region file of which everything must be right, its OpenStack clusters
// included, and fills in its defaults. Warnings go to standard error.
func loadChecked(cmd *cobra.Command, file string) (*check.Document, []byte, error) {
	doc, data, err := loadDocument(cmd, file)
	if err != nil {
		return nil, nil, err
	}
	problems, err := openstack.Check(doc, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	for _, p := range problems {
		cmd.PrintErrln(p.String())
	}
	return doc, data, nil
}

func addRegionFileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "file", "f", "region.yaml", "region file, - for standard input")
}

// readRegionFile reads a region file and returns the name that problems call it by. A byte more
// than the limit is read, so that check.Load reports a file that is too large.
func readRegionFile(cmd *cobra.Command, file string) (data []byte, name string, err error) {
	in, name := cmd.InOrStdin(), "<stdin>"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, file, invalid(fmt.Errorf("reading the region file: %w; name it with -f, or begin with a copy of region.example.yaml", err))
		}
		defer f.Close()
		in, name = f, file
	}
	data, err = io.ReadAll(io.LimitReader(in, check.MaxFileSize+1))
	if err != nil {
		return nil, name, invalid(fmt.Errorf("reading the region file %s: %w", name, err))
	}
	return data, name, nil
}
