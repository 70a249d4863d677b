package cluster

import (
	"fmt"
	"time"

	"regiond.dev/regiond/region"
)

// Facts are what was observed of a cluster.
type Facts struct {
	// Name of the cluster.
	Name       string
	Generation int64
	// Release in force.
	Release string
	// Refused is a part of the declaration that is not followed, nil if all is. What is in force stays so.
	Refused *Trouble
	// Store is why the store of its secrets can't be followed, or left; the cluster goes on with its own
	// copy of them. nil if it can, or if there is none.
	Store *Trouble
	// Status as it was written last. Only the times of its conditions are used, for 'since'.
	Status region.OpenStackClusterStatus
	// Trouble is why the desired state isn't known, nil if it is.
	Trouble *Trouble
	Disk    Disk
	// Database of the cluster on this host's disk.
	Database Database
	// Workloads that are desired, in the order in which they are applied.
	Workloads []Workload
	// Superseded are jobs of an earlier declaration that have not ended.
	Superseded []Superseded
	// Unreachable is why no gate can be probed, empty if gates can be.
	Unreachable string
	// Probes of gates, by name: the last one of each.
	Probes map[string]Probe
	// Nodes that are desired, sorted by name.
	Nodes []NodeFacts
	// Leaving are hosts that were nodes, and are to be no longer.
	Leaving []Leaving
	// Disrupt: guests may be cut off from their networks by the present declaration.
	Disrupt bool
	// UsersMissing is why the hosts' own users are not known to be there; empty if they are, or if hosts have none.
	UsersMissing string
	// NodesError is why Nova and Neutron could not be asked for them.
	NodesError string
	// NodesAgain is how long it is until they are asked again.
	NodesAgain time.Duration
	// Mapping is the state of the job that maps hosts to their cell.
	Mapping Workload
	// MappingEnded is when it was complete. MappingRuns are the jobs for those hosts that are without a cell now.
	MappingEnded time.Time
	MappingRuns  int
	// Fernet keys of Keystone, nil while what is desired isn't known.
	Fernet *Fernet
	// Warnings of rendering, for the condition Configured.
	Warnings []string
}

// Trouble with the declaration itself.
type Trouble struct{ Reason, Message string }

// Disk of the databases.
type Disk struct {
	Path       string
	Free, Size uint64
}

// The least free space: what a MariaDB that grows can't write any more makes services fail at random, and an upgrade begins
// with a dump. The smaller of the two counts.
const (
	leastFree        = 2 << 30
	leastFreePercent = 5
)

// full says that nothing more is to be rolled out onto the disk.
func (d Disk) full() bool { return d.Size > 0 && d.Free < d.least() }

func (d Disk) least() uint64 { return min(leastFree, d.Size/100*leastFreePercent) }

// Database of a cluster, as it lies on the disk.
type Database struct {
	Folder string
	// There: the folder holds one.
	There bool
	// Created is when the cluster's database was first seen to work, by the record of that; empty if it never was.
	Created string
	// Used: services that start only after the database was proved have been started. It stands for the record in clusters that an
	// earlier regiond has made.
	Used bool
}

// Lost says that the cluster had a database which is not there.
func (d Database) Lost() bool { return !d.There && (d.Created != "" || d.Used) }

// Creatable says that the cluster has no database, and never had one.
func (d Database) Creatable() bool { return !d.There && !d.Lost() }

// Workload is a Deployment, StatefulSet or Job.
type Workload struct {
	Gate, Name, Version string
	Job                 bool
	// Present: the object is there as desired.
	Present bool
	// Generation of the object, which changes with its spec.
	Generation int64
	// Waiting says why it is not rolled out or complete; empty if it is.
	Waiting string
	// Failed is when a job was given up by Kubernetes, zero if it was not.
	Failed time.Time
}

func (w Workload) done() bool { return w.Present && w.Waiting == "" }

// active says that a job has begun and not ended.
func (w Workload) active() bool { return w.Job && w.Present && w.Waiting != "" && w.Failed.IsZero() }

// Probe is one attempt to pass a gate.
type Probe struct {
	// Of is what was probed: the workloads and secrets at that time. Another value makes the result old.
	Of   string
	Time time.Time
	// Err is empty if the gate was passed.
	Err string
	// Failures in a row, this one included.
	Failures int
	// Terminal: trying again does not help before someone has changed something.
	Terminal bool
}

// NodeFacts are what is known of one compute host.
type NodeFacts struct {
	Name string
	// Desired digest of its configuration; empty while the configuration is not known.
	Desired string
	// Stored: the configuration was written for the host, with this release.
	Stored        string
	StoredRelease string
	// Others are clusters whose compute services the host was given before, and whose guests may still be on it.
	Others []string
	// Given is when, WasUp whether the host was up then, Current whether that was for the present generation of the cluster.
	Given          time.Time
	WasUp, Current bool
	// Registers: its nova-compute has registered since, and gets that with its next configuration.
	Registers bool
	// Cuts: the configuration that it is to get restarts what carries guests' traffic. Guests are how many it has.
	Cuts   bool
	Guests int
	// Applied digest by the host's own word, and what its condition Configured says.
	Applied    string
	Configured string // status of the condition, empty without one
	Message    string // of the condition
	// Service of Nova, nil if it has not registered.
	Service *ComputeService
	// Agents of Neutron on the host.
	Agents []Agent
	Mapped bool
	// Address in the provisioning network, which tunnels end at unless values say another.
	Address string
	// Tunnels to other hosts, by the agent's word; nil if it has tried none.
	Tunnels *region.HostTunnels
	// Started is when the host's processes were started by its agent's word, by their binary, e.g. nova-compute.
	Started map[string]time.Time
}

// ComputeService is a nova-compute.
type ComputeService struct {
	ID          string
	Up, Enabled bool
	Reason      string // why it is disabled
	Reported    time.Time
}

// Agent of Neutron.
type Agent struct {
	Binary   string
	Alive    bool
	Reported time.Time
}

// Part of the desired state that is applied at once: one job, or everything else of a gate. Gate is
// empty for what comes before all gates.
type Part struct{ Gate, Job string }

func (p Part) String() string {
	if p.Job != "" {
		return "job " + p.Job
	}
	return fmt.Sprintf("gate %q", p.Gate)
}
