package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

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

// loadRegion reads a region file that must be right, and fills in its defaults.
func loadRegion(cmd *cobra.Command, file string) (*region.Region, []byte, error) {
	doc, data, err := loadDocument(cmd, file)
	if err != nil {
		return nil, nil, err
	}
	return doc.Region, data, nil
}

// loadDocument is loadRegion with the places of fields.
func loadDocument(cmd *cobra.Command, file string) (*check.Document, []byte, error) {
	data, name, err := readRegionFile(cmd, file)
	if err != nil {
		return nil, nil, err
	}
	doc, err := check.Load(data, name)
	if err != nil {
		return nil, nil, err
	}
	region.Default(doc.Region)
	return doc, data, nil
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
