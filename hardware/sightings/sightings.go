// Package sightings remembers what the services of the provisioning network last saw of each
// machine, so that a machine that does not netboot can be told how far it got. It is kept in memory
// only, is bounded, and proves nothing: anyone can send any MAC address.
package sightings

import (
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"regiond.dev/regiond/hardware/fingerprint"
)

// most machines that are remembered; beyond that, the one that was seen longest ago is forgotten.
const most = 4096

// Sighting is what was last seen of one MAC address. A zero time says never.
type Sighting struct {
	MAC string
	// UUID of the machine, as its firmware said in DHCP (option 97); empty if it did not.
	UUID string
	// DHCP is the last request of any kind, and FirmwareDHCP the last one by network boot firmware or iPXE.
	DHCP, FirmwareDHCP time.Time
	// Unanswered is why that was not answered, a reason of package dhcp; empty if it was.
	Unanswered string
	// TFTP and HTTP are the last requests from the address that is leased to it.
	TFTP, HTTP time.Time
}

// Last is when the machine was last seen.
func (s Sighting) Last() time.Time {
	return slices.MaxFunc([]time.Time{s.DHCP, s.TFTP, s.HTTP}, time.Time.Compare)
}

// Sightings of all machines. All methods may be called on nil, which remembers nothing.
type Sightings struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*Sighting
}

// New returns sightings by the given clock.
func New(now func() time.Time) *Sightings {
	return &Sightings{now: now, of: map[string]*Sighting{}}
}

// DHCP notes a request. firmware says that it is of network boot firmware or iPXE, and unanswered why it was not answered.
func (s *Sightings) DHCP(mac net.HardwareAddr, firmware bool, uuid, unanswered string) {
	s.note(mac, func(v *Sighting, now time.Time) {
		v.DHCP = now
		if firmware {
			v.FirmwareDHCP, v.Unanswered = now, unanswered
		}
		if uuid != "" {
			v.UUID = uuid
		}
	})
}

// TFTP notes a read request.
func (s *Sightings) TFTP(mac net.HardwareAddr) {
	s.note(mac, func(v *Sighting, now time.Time) { v.TFTP = now })
}

// HTTP notes a request.
func (s *Sightings) HTTP(mac net.HardwareAddr) {
	s.note(mac, func(v *Sighting, now time.Time) { v.HTTP = now })
}

func (s *Sightings) note(mac net.HardwareAddr, set func(*Sighting, time.Time)) {
	if s == nil || len(mac) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.ToLower(mac.String())
	v := s.of[key]
	if v == nil {
		if len(s.of) >= most {
			s.forgetOldest()
		}
		v = &Sighting{MAC: key}
		s.of[key] = v
	}
	set(v, s.now())
}

func (s *Sightings) forgetOldest() {
	oldest := ""
	for key, v := range s.of {
		if oldest == "" || v.Last().Before(s.of[oldest].Last()) {
			oldest = key
		}
	}
	delete(s.of, oldest)
}

// Of returns the last sighting of a machine with one of the MAC addresses or with the system UUID,
// in whatever byte order; zero if there is none.
func (s *Sightings) Of(macs []string, systemUUID string) (last Sighting) {
	if s == nil {
		return last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, v := range s.of {
		known := slices.ContainsFunc(macs, func(mac string) bool { return strings.EqualFold(mac, key) })
		if (known || fingerprint.SameUUID(systemUUID, v.UUID)) && v.Last().After(last.Last()) {
			last = *v
		}
	}
	return last
}
