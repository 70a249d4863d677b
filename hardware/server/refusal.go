package server

import (
	"fmt"

	bounded "regiond.dev/regiond/region/condition"
)

// Reasons of conditions that stay until the wish, or the hardware, changes.
const (
	ReasonNoProfile           = "ProfileNotMatched"
	ReasonProfileUnknown      = "ProfileUnknown"
	ReasonDiskNotSelected     = "DiskNotSelected"
	ReasonNetworkNotResolved  = "NetworkNotResolved"
	ReasonMarkerContradictory = "MarkerContradictory"
)

// Refusal is a plan that can't be made: nothing is written. It is terminal until the wish or the
// inventory changes.
type Refusal struct {
	Reason  string
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: bounded.Message(fmt.Sprintf(format, args...))}
}
