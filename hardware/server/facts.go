package server

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/sightings"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// Desired is what the operator wants of one server.
type Desired struct {
	Name       string
	UID        types.UID
	Generation int64
	Spec       region.ServerSpec
	// RegionUID is the UID of the Region object; installations carry it in their marker.
	RegionUID types.UID
	// Profiles of the region, first match first.
	Profiles []region.Profile
	// Undeclared: the server came from region.yaml and is no longer listed there.
	Undeclared bool
	// Reinstallation that was accepted for the present spec.reinstallAfter, nil when there is none.
	Reinstallation *region.ReinstallationStatus
}

// Facts are what was observed of one server.
type Facts struct {
	Status region.ServerStatus
	// CredentialsVersion is the resourceVersion of the Secret with the BMC's user, empty when there
	// is no such Secret.
	CredentialsVersion string
	// Host is the installed system's object, nil when there is none.
	Host *region.Host
	// Heartbeat is the renewTime of the host's Lease, zero when it was never renewed.
	Heartbeat time.Time
	// HeartbeatSeen says that this process saw the Lease being renewed.
	HeartbeatSeen bool
	// Key is the record of the host's keys, nil when there is none.
	Key *hostkey.Record
	// HeartbeatTimeout is the Lease's duration, after which a host counts as silent.
	HeartbeatTimeout time.Duration
	// BMC is the last observation of the BMC in this life of the process.
	BMC Observation
	// Listening is since when this process hears machines. What fell silent while regiond was away is
	// given its full time again.
	Listening time.Time
	// Sighted is what was last seen of the machine on the provisioning network. It is only a cache.
	Sighted sightings.Sighting
	// Duplicates names the other servers that have the same BMC address, system UUID or serial number.
	Duplicates []string
	// Survey is the last answer of the cloud: whether guests are on the host, or, when a reinstallation was accepted, whether the
	// old system is forgotten.
	Survey GuestSurvey
}

// GuestSurvey is the answer to whether a host's system may end. It is only a cache.
type GuestSurvey struct {
	// Time at which it was asked, zero when it never was.
	Time time.Time
	// Refusal says why not, empty when no guest is left and none can come, or the old system is forgotten.
	Refusal string
}

// Outcome of speaking to a BMC.
type Outcome string

// Outcomes.
const (
	OutcomeNone          Outcome = ""              // never tried
	OutcomeAnswered      Outcome = "Answered"      // the observation is valid
	OutcomeRefused       Outcome = "Refused"       // the credentials were refused: tried again at long intervals
	OutcomeUnreachable   Outcome = "Unreachable"   // no or no sensible answer: tried again
	OutcomeContradictory Outcome = "Contradictory" // an order was accepted but not carried out: tried again
)

// Observation is what one BMC said, or did not say. It is only a cache: it may be lost at any time.
type Observation struct {
	Outcome Outcome
	// Time at which the BMC was last asked.
	Time  time.Time
	Power region.PowerState
	// Reason of the last error as a condition's reason, empty when it is not known.
	Reason string
	// Error of the last try, for people.
	Error string
	// NextTry is when to ask again after a failure: back-off with jitter, by whoever made the observation.
	NextTry time.Time
	// CredentialsVersion and Generation that the observation was made with.
	CredentialsVersion string
	Generation         int64
}

// made says whether the observation was made with the present credentials and spec.
func (o Observation) made(want Desired, f Facts) bool {
	return o.Outcome != OutcomeNone && o.CredentialsVersion == f.CredentialsVersion && o.Generation == want.Generation
}

// Action is the one next act on a machine.
type Action interface{ action() }

// The actions there are.
type (
	// None: nothing to do but to wait.
	None struct{}
	// Probe asks the BMC who it is and for the power state.
	Probe struct{}
	// Survey asks whether guests are on the host.
	Survey struct{}
	// ShutDown asks the machine's system to shut down. It never cuts the power.
	ShutDown struct{ Consent region.Consent }
	// PowerOff cuts the machine's power.
	PowerOff struct{ Consent region.Consent }
	// PowerOn starts the machine from its local disk.
	PowerOn struct{}
	// Netboot sets the one-shot network boot on the machine, which is off, and powers it on.
	Netboot struct {
		Firmware inventory.FirmwareMode
		// Attempt counts from 1.
		Attempt int32
		// ObservedOff is when the BMC said that the machine is off.
		ObservedOff time.Time
	}
)

func (None) action()     {}
func (Probe) action()    {}
func (Survey) action()   {}
func (ShutDown) action() {}
func (PowerOff) action() {}
func (PowerOn) action()  {}
func (Netboot) action()  {}

// Decision is what follows from what is desired and the facts.
type Decision struct {
	// Retired: the server's host is to be removed, if there still is one.
	Retired    bool
	Action     Action
	Phase      region.ServerPhase
	Conditions []metav1.Condition
	// Installed: the local disk holds what is desired, so a Host and its rights must exist.
	Installed bool
	// Accepted: the reinstallation that spec.reinstallAfter asks for begins now. The rights of the present system end.
	Accepted bool
	// Reinstalling: one was accepted, and the host of the old system is still there and is to be removed.
	Reinstalling bool
	// ReinstallationOver: what was accepted is done, or not asked for any more.
	ReinstallationOver bool
	// BootEnded: the network boot that regiond asked for is seen to be over.
	BootEnded bool
	// InventoryOver: the inventory was reported by a machine behind another BMC than the server has now.
	InventoryOver bool
	// SeenOff: the machine is off, so no shutdown is waited for any more.
	SeenOff bool
	// After is when to decide again if nothing happens until then. Zero: only an event matters.
	After time.Duration
}
