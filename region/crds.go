package region

import (
	"embed"
	"io/fs"
)

//go:embed crd/*.yaml
var crdFiles embed.FS

// CRDs are the CustomResourceDefinitions of the group as YAML documents, one each, in the order
// of their file names.
func CRDs() ([][]byte, error) {
	names, err := fs.Glob(crdFiles, "crd/*.yaml")
	if err != nil {
		return nil, err
	}
	documents := make([][]byte, len(names))
	for i, name := range names {
		if documents[i], err = crdFiles.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// CRD is the CustomResourceDefinition of a resource of the group, e.g. of regions.
func CRD(plural string) ([]byte, error) {
	return crdFiles.ReadFile("crd/" + GroupVersion.Group + "_" + plural + ".yaml")
}
