package openstack

import (
	"errors"
	"io/fs"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/images/oci"
)

// KnownOptions are the options of a release's services that templates and values are checked by, to
// be compared with those of the packages that its images are built of. Nil if none are known.
func KnownOptions(release string) (oci.Options, error) {
	content, err := configgen.OptionData(release)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return oci.ParseOptions(content)
}
