package server

import (
	"time"

	"regiond.dev/regiond/region"
)

// shutDown asks the machine's system to shut down, and cuts the power when it has not, if the consent reaches that far. It is
// the only way in which a system that regiond did not load itself is ended.
func (d *decider) shutDown(consent region.Consent, mayCut bool) {
	s := d.f.Status.Shutdown
	if !d.pending(s, consent) {
		d.Action = ShutDown{Consent: consent}
		return
	}
	late := s.Requested.Add(shutdownTime)
	switch {
	case d.now.Before(late):
		d.again(late.Sub(d.now))
	case mayCut:
		d.Action = PowerOff{Consent: consent}
	default:
		d.again(s.Requested.Add(3 * shutdownTime).Sub(d.now))
	}
}

// pending says whether the request was made of what the machine runs now.
func (d *decider) pending(s *region.ShutdownStatus, consent region.Consent) bool {
	switch {
	case s == nil || s.Consent != consent:
		return false
	case s.BMCAddress != "" && s.BMCAddress != BMCAddress(d.want.Spec.BMC):
		return false // maybe of another machine
	case consent == region.ConsentOwnBoot && s.Requested.Time.Before(d.boot.last()):
		return false // of the firmware or the boot loader, and the boot went on
	}
	// One that is long past was made of another run of the machine, which regiond did not see the end of.
	return !s.Requested.After(d.now) && d.now.Before(s.Requested.Add(3*shutdownTime))
}

// takeover says whether the operator allows to end what runs on the server although regiond did not start it.
func takeover(want Desired, now time.Time) bool {
	t := want.Spec.TakeoverUntil
	return t != nil && now.Before(t.Time)
}
