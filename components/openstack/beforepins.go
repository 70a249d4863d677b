package openstack

import (
	_ "embed"
	"sync"
)

// Clusters had no pin before commit e9d8cda. What they run was rendered from that commit's templates and manifests, which this
// archive holds: without it, a cluster could be pinned only to templates that it was not rendered from, and would restart.
//
//go:embed beforepins.zip
var beforePins []byte

// digestBeforePins is the digest of that archive's content.
const digestBeforePins = "4a90ce03e026060e307164ad44fef66764271522e5bcfe98a9d7b5373e9ca6bb"

// BeforePins is the composer of the templates that clusters without a pin were rendered from.
var BeforePins = sync.OnceValues(func() (*Composer, error) { return Open(beforePins, digestBeforePins) })
