package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/install"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// dataDirFlags say which region on this host a command is about.
type dataDirFlags struct{ dataDir, file string }

func (f *dataDirFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "data directory (default: the one of the installed region, or "+region.DefaultDataDir+")")
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "region file that names the data directory")
}

func (f *dataDirFlags) resolve() (string, error) {
	switch {
	case f.dataDir != "" && f.file != "":
		return "", invalid(errors.New("--data-dir and -f both name a data directory; give one of them"))
	case f.dataDir != "":
		return f.dataDir, nil
	case f.file != "":
		return dataDirOf(f.file)
	}
	dir, err := dataDirOf(install.DefaultPaths.RegionFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return region.DefaultDataDir, nil
	}
	return dir, err
}

// dataDirOf reads a region file that need not be right in everything else: status and reset work
// after a mistake was made in it.
func dataDirOf(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	doc, err := check.Load(b, file)
	if doc.Region.Spec.ControlPlane.DataDir == "" && err != nil && doc.Region.Name == "" {
		return "", fmt.Errorf("%w\nor name the data directory by --data-dir", err)
	}
	region.Default(doc.Region)
	return doc.Region.Spec.ControlPlane.DataDir, nil
}
