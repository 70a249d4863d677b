package region

import (
	"slices"
	"strings"
)

// AnnotationComputeOf on a Host names the OpenStack clusters, separated by commas, whose compute
// services the host was given. It is written before the first configuration of a cluster is handed
// to the host. A cluster is taken out only after it was shown that none of its guests is on the
// host, so a Host without the name of a cluster never ran guests of it, or runs none any more.
// Agents may not write it: they may write the status of their Host only.
const AnnotationComputeOf = "regiond.dev/compute-of"

// ComputeOf returns the names of the OpenStack clusters whose compute services the host was given,
// sorted.
func (h *Host) ComputeOf() []string {
	all := slices.DeleteFunc(strings.Split(h.Annotations[AnnotationComputeOf], ","), func(s string) bool { return s == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// SetComputeOf replaces the names that ComputeOf returns.
func (h *Host) SetComputeOf(clusters []string) {
	if len(clusters) == 0 {
		delete(h.Annotations, AnnotationComputeOf)
		return
	}
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	all := slices.Clone(clusters)
	slices.Sort(all)
	h.Annotations[AnnotationComputeOf] = strings.Join(slices.Compact(all), ",")
}
