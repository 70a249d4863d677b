package cluster

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/components/openstack"
)

// memory keeps observations by the UID of the cluster. Losing it costs that they are made again, nothing else.
type memory struct {
	mu sync.Mutex
	by map[types.UID]*observations
	// begun is when the last reconciliation of a cluster began, by its name.
	begun map[string]time.Time
}

// early is how much too early a reconciliation of a cluster is after the last one. If it is not, it
// counts as the last one from then on.
func (m *memory) early(name string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, some := m.begun[name]; some && now.Sub(last) >= 0 && now.Sub(last) < floor {
		return floor - now.Sub(last)
	}
	if m.begun == nil {
		m.begun = map[string]time.Time{}
	}
	m.begun[name] = now
	return 0
}

// gone forgets when the last reconciliation of a cluster was.
func (m *memory) gone(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.begun, name)
}

// observations of one cluster. One reconciliation of a cluster runs at a time, so they need no lock of their own.
type observations struct {
	// composed is the state of an input, by its digest: rendering takes tenths of a second.
	composed struct {
		of    string
		state *openstack.State
		// last state that there was: what it has in common with the next one isn't rendered again.
		last *openstack.State
		err  error
	}
	// applied parts: what was found to be as desired, when.
	applied map[Part]check
	pruned  check
	// endpoints: when the catalogue was last found without, or rid of, those that are no longer declared.
	endpoints check
	// secret of the cluster as it was last read or written, nil if there was none.
	secret *corev1.Secret
	store  storeAttempt
	probes map[string]Probe
	// thorough is, by gate, of what a thorough proof was last given. It disturbs hosts and users, and
	// is not repeated while there is no other thing to be proved.
	thorough map[string]string
	session  *cloud.Session
	// ensured is the fingerprint under which the catalogue was last found, or brought, to what is desired, its users' passwords too.
	ensured string
	// fernet: since when the Secret of Keystone's pods is seen to be as desired.
	fernet check
	// users of hosts that were last found, or brought, to what is desired, and why they could not be.
	users      check
	usersError string
	usersTried attempt
	hosts      struct {
		time time.Time
		by   map[string]gate.Host
		err  error
		// of is what was last known of the nodes, changed when that was another.
		of      string
		changed time.Time
	}
	// templates that the cluster is pinned to, when they were last found to be stored.
	templates struct {
		check
		composer *openstack.Composer
	}
	// unpinned is why nothing was found that the cluster could be pinned to: the search compares all that there is.
	unpinned struct {
		generation int64
		time       time.Time
		trouble    *Trouble
	}
	// mappings are the jobs that were run for hosts without a cell, which of names.
	mappings struct {
		of   string
		runs int
	}
	// served says of hosts, by name, whether they were in service when Nova was last asked, since when it could not be.
	served map[string]bool
	// leaving are the hosts that leave the cluster, by name.
	leaving map[string]*surveyed
	// running are the jobs that were seen to run, by their UIDs.
	running map[types.UID]bool
}

// surveyed is what a cluster said of a host when it was asked.
type surveyed struct {
	time  time.Time
	cloud *computehost.Cloud
	err   error
}

// check is that something was found, or brought, to what is desired.
type check struct {
	of   string
	time time.Time
}

// recheck is the age at which what was applied is compared again, for changes that no event tells of.
const recheck = 2 * time.Minute

func (c check) holds(of string, now time.Time) bool { return c.of == of && now.Sub(c.time) < recheck }

// attempt is the last one in a row of those at something that have failed.
type attempt struct {
	of       string
	time     time.Time
	failures int
}

// early reports whether it is too early to try again: after each failure the time until then is doubled.
func (a attempt) early(of string, now time.Time) bool {
	return a.failures > 0 && a.of == of && now.Sub(a.time) < min(terminalPoll, failedPoll<<min(a.failures-1, 10))
}

// failed counts another failure.
func (a attempt) failed(of string, now time.Time) attempt {
	if a.of != of {
		a.failures = 0
	}
	return attempt{of: of, time: now, failures: a.failures + 1}
}

func (m *memory) of(uid types.UID) *observations {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[types.UID]*observations{}
	}
	o := m.by[uid]
	if o == nil {
		o = &observations{applied: map[Part]check{}, probes: map[string]Probe{}, thorough: map[string]string{}, served: map[string]bool{}, leaving: map[string]*surveyed{}}
		m.by[uid] = o
	}
	return o
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, uid)
}
