package openstack

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// NewPin returns a pin to the templates with a digest and to an image set.
func NewPin(templates string, set oci.Set) *region.OpenStackPin {
	p := &region.OpenStackPin{Templates: templates, Images: region.OpenStackImages{
		Release: region.OpenStackRelease(set.Release), Debian: set.Debian, Recipe: set.Recipe}}
	if !set.Built.IsZero() {
		p.Images.Built = &metav1.Time{Time: set.Built}
	}
	for name, i := range set.Images {
		p.Images.Images = append(p.Images.Images, region.OpenStackImage{Name: name, Repository: i.Repository, Digest: i.Digest,
			Version: i.Version, Bytes: i.Bytes})
	}
	slices.SortFunc(p.Images.Images, func(a, b region.OpenStackImage) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

// PinnedImages returns the image set of a pin.
func PinnedImages(p *region.OpenStackPin) oci.Set {
	set := oci.Set{Release: string(p.Images.Release), Debian: p.Images.Debian, Recipe: p.Images.Recipe, Images: map[string]oci.Image{}}
	if p.Images.Built != nil {
		set.Built = p.Images.Built.UTC()
	}
	for _, i := range p.Images.Images {
		set.Images[i.Name] = oci.Image{Repository: i.Repository, Digest: i.Digest, Version: i.Version, Bytes: i.Bytes}
	}
	return set
}

// SetOf returns the first image set that has all of the running images, which are references as in
// pods: the set that the pods run.
func SetOf(sets []oci.Set, running []string) (oci.Set, bool) {
	i := slices.IndexFunc(sets, func(s oci.Set) bool {
		return !slices.ContainsFunc(running, func(reference string) bool {
			for _, image := range s.Images {
				if image.Reference() == reference {
					return false
				}
			}
			return true
		})
	})
	if i < 0 {
		return oci.Set{}, false
	}
	return sets[i], true
}
