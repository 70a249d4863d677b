package openstack

import (
	"errors"
	"os"

	"regiond.dev/regiond/region/check"
)

// Validate returns everything that is wrong with a region file: what Load refuses, what Check finds
// and, unless it is checked away from its seed host, what is wrong with the files that it names.
// name is what problems call it by.
func Validate(data []byte, name string, offline bool) (check.Problems, error) {
	doc, err := check.Load(data, name)
	var problems check.Problems
	if err != nil && !errors.As(err, &problems) {
		return nil, err
	}
	patches := ReadPatches
	if offline {
		patches = nil
	}
	more, err := Check(doc, patches)
	if err != nil {
		return nil, err
	}
	problems = problems.Merge(more)
	if !offline {
		problems = problems.Merge(doc.CheckSecretFiles(os.Stat))
	}
	return problems, nil
}
