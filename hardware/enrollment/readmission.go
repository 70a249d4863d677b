package enrollment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// Readmission is the plan to let a host back whose certificate expired, with the evidence that its operator decides by.
type Readmission struct {
	Host string `json:"host"`
	UID  string `json:"uid"`
	// Need says why it can't come back by itself.
	Need string `json:"need"`
	// BMC, SystemUUID, SerialNumber and MACAddresses of the server; empty for a machine that regiond did not install.
	BMC          string   `json:"bmc,omitempty"`
	SystemUUID   string   `json:"systemUUID,omitempty"`
	SerialNumber string   `json:"serialNumber,omitempty"`
	MACAddresses []string `json:"macAddresses,omitempty"`
	// Keys that are accepted: SHA-256 of the public key. Issued and Expired are of the newest one's certificate, which may not
	// have reached the host and be valid still.
	Keys    []string  `json:"keys"`
	Issued  time.Time `json:"issued"`
	Expired time.Time `json:"expired"`
	// OnlyFirstKey: the record is of a version that recorded the key of a host's first certificate only.
	OnlyFirstKey bool `json:"onlyFirstKey,omitempty"`
	// AgentAsks: its agent is known to ask by itself. Agents of earlier versions do not, and of which it is may not be recorded.
	// AgentVersion is what it said last. Otherwise says what to do if it does not come back.
	AgentAsks    bool   `json:"agentAsks"`
	AgentVersion string `json:"agentVersion,omitempty"`
	Otherwise    string `json:"otherwise"`
	// LastSeen is the host's last heartbeat, Asked when it last asked to be readmitted, and AskedFrom its address then.
	LastSeen  time.Time `json:"lastSeen,omitzero"`
	Asked     time.Time `json:"asked,omitzero"`
	AskedFrom string    `json:"askedFrom,omitempty"`
	// Until is when the readmission ends if it was not used.
	Until time.Time `json:"until"`

	owner  client.Object
	record *hostkey.Record
}

// PlanReadmission collects the evidence. It refuses a host that has no business to come back, or does not need this.
func PlanReadmission(ctx context.Context, c client.Client, name string, now time.Time) (*Readmission, error) {
	fail := func(err error) (*Readmission, error) { return nil, fmt.Errorf("readmit %s: %w", name, err) }
	owner, err := ownerOf(ctx, c, name)
	switch {
	case err != nil:
		return fail(err)
	case owner == nil:
		return fail(errors.New("there is neither a server nor an enrolled host of that name; regiond status lists them"))
	}
	record, err := recordOf(ctx, c, owner)
	if err != nil {
		return fail(err)
	}
	r := &Readmission{Host: name, UID: string(owner.GetUID()), Otherwise: otherwise(owner), Until: now.Add(hostkey.Window).UTC().Truncate(time.Second), owner: owner, record: record}
	switch o := owner.(type) {
	case *region.Server:
		r.describe(o)
		facts, err := server.ReadFacts(ctx, c, o)
		if err != nil {
			return fail(err)
		}
		r.LastSeen = facts.Heartbeat
		if facts.Host != nil {
			r.AgentVersion = facts.Host.Status.AgentVersion
		}
	case *region.Host:
		r.AgentVersion = o.Status.AgentVersion
		if r.LastSeen, err = host.Heartbeat(ctx, c, o); err != nil {
			return fail(err)
		}
	}
	if err := refuseReadmission(owner, record, r.LastSeen, now); err != nil {
		return fail(err)
	}
	r.Need, r.Keys, r.Issued, r.Expired, r.OnlyFirstKey = record.Need(now), record.Keys, record.Issued, record.Expires, record.OfJoin
	r.AgentAsks, r.Asked, r.AskedFrom = record.Asks(), record.Asked, record.AskedFrom
	return r, nil
}

// otherwise is how a host comes back that can't be readmitted.
func otherwise(owner client.Object) string {
	if _, installed := owner.(*region.Server); installed {
		return "install it again: spec.reinstallAfter"
	}
	return "make a new identity for it: regiond host enroll --again"
}

// refuseReadmission says why a host can't be readmitted, and what to do instead. It is pure.
func refuseReadmission(owner client.Object, record *hostkey.Record, heartbeat, now time.Time) error {
	if owner.GetDeletionTimestamp() != nil {
		return errors.New("it is being deleted")
	}
	if s, ok := owner.(*region.Server); ok {
		if s.Spec.Retired {
			return errors.New("the server is retired; take it back into service first (spec.retired: false)")
		}
		if r := server.Reinstallation(s); r != nil {
			return fmt.Errorf("it is being installed again since %s; the system that was on it does not come back", stamp(r.Accepted.Time))
		}
	}
	switch {
	case record == nil:
		return fmt.Errorf("no key of its agent was recorded, so nothing proves that a machine that asks is this host; %s", otherwise(owner))
	case len(record.Keys) == 0:
		return fmt.Errorf("its installation was ordered at %s and its agent has not joined yet: nothing to readmit", stamp(record.Issued))
	case !record.NeedsReadmission(heartbeat, now):
		return fmt.Errorf("its certificate is valid until %s: it comes back by itself when it is powered on", stamp(record.Expires))
	}
	return nil
}

func (r *Readmission) describe(s *region.Server) {
	r.BMC, r.MACAddresses = server.BMCAddress(s.Spec.BMC), slices.Clone(s.Spec.MACAddresses)
	if b := s.Status.BMC; b != nil {
		r.SystemUUID, r.SerialNumber = b.SystemUUID, b.SerialNumber
	}
	if inv := s.Status.Inventory; inv != nil {
		r.SystemUUID = inv.System.UUID // what the machine says of itself is what its agent must say again
		for _, n := range inv.NICs {
			if !slices.Contains(r.MACAddresses, n.MACAddress) {
				r.MACAddresses = append(r.MACAddresses, n.MACAddress)
			}
		}
	}
}

// Open lets the host use its readmission until the plan's end. It refuses when the keys are others than the plan showed.
func (r *Readmission) Open(ctx context.Context, c client.Client) error {
	err := hostkey.Update(ctx, c, r.owner, func(now *hostkey.Record) error {
		now.Adopt(r.record)
		if !slices.Equal(now.Keys, r.Keys) {
			return errors.New("its keys have changed since the plan was made; nothing was changed, try again")
		}
		now.ReadmitUntil, now.Readmitted, now.ReadmittedKey = r.Until, time.Time{}, ""
		return nil
	})
	if err != nil {
		return fmt.Errorf("readmit %s: %w", r.Host, err)
	}
	return nil
}
