package dhcp

import (
	"net/netip"
	"time"
)

// State of an address.
type State string

// States. Only bound, released and quarantined addresses are kept in the database.
const (
	StateFree        State = ""
	StateProbing     State = "Probing"     // chosen for a client, ARP is being asked
	StateOffered     State = "Offered"     // offered to a client, which has not taken it yet
	StateBound       State = "Bound"       // leased
	StateReleased    State = "Released"    // given back; kept for the client while nobody else needs it
	StateQuarantined State = "Quarantined" // found in use by a stranger
)

// Lease is what is known of one address. The zero value with an address is a free one.
type Lease struct {
	Address netip.Addr `json:"address"`
	// Client that holds it, see clientKey. Empty when free or quarantined.
	Client string `json:"client,omitempty"`
	State  State  `json:"state"`
	// Expires is when the state ends; the lease stays the client's until another needs it.
	Expires time.Time `json:"expires"`
}

// Leases is what the pool knows of a request: the client's own lease, and that of the address it
// asks for.
type Leases struct {
	Own, Asked Lease
}

// held says whether nobody else may have the address now.
func (l Lease) held(now time.Time) bool {
	switch l.State {
	case StateFree, StateReleased:
		return false
	}
	return now.Before(l.Expires)
}
