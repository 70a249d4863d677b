package openstack

import (
	_ "embed"
	"sync"
)

// Clusters had no pin before commit e9d8cda. They run what that commit's templates and manifests
// rendered, which are in this archive: without it, such a cluster could only be pinned to templates
// that it was not rendered from, and would restart.
//
//go:embed beforepins.zip
var beforePins []byte

// digestBeforePins is the digest of that archive's content.
const digestBeforePins = "4a90ce03e026060e307164ad44fef66764271522e5bcfe98a9d7b5373e9ca6bb"

// BeforePins is the composer of the templates that clusters without a pin were rendered from.
var BeforePins = sync.OnceValues(func() (*Composer, error) { return Open(beforePins, digestBeforePins) })
