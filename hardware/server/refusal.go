package server

import (
	"fmt"

	bounded "regiond.dev/regiond/region/condition"
)

// Refusal is a plan that can't be made: nothing is written. It is terminal until what is declared, or
// the inventory, changes.
type Refusal struct {
	// Reason of the condition, in package region.
	Reason  string
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: bounded.Message(fmt.Sprintf(format, args...))}
}
