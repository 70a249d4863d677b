package region

// Reasons of the condition Configured of an OpenStackCluster.
const (
	// ReasonNotConfigurable: something that the configuration depends on is missing, e.g. the release's images.
	ReasonNotConfigurable = "NotConfigurable"
	// ReasonNotPinned: the cluster runs what an earlier regiond rolled out, and this one can't tell from which templates and images.
	// Nothing of it is changed until the next `regiond apply`.
	ReasonNotPinned = "NotPinned"
	// ReasonReleaseRefused: the declared release is not the one in force, and can't be reached from it. The one in force stays.
	ReasonReleaseRefused = "ReleaseRefused"
	// ReasonTemplatesMissing: the templates that the cluster is pinned to are missing, damaged, or of a newer regiond's format.
	ReasonTemplatesMissing = "TemplatesMissing"
)
