package server

import (
	"time"

	"regiond.dev/regiond/region"
)

// shutDown asks the machine's system to shut down, and cuts the power when it has not, if the consent reaches that far. It is
// the only way in which a system that regiond did not load itself is ended.
func (d *decider) shutDown(consent region.Consent, mayCut bool) {
	s := d.f.Status.Shutdown
	// A request that is long past was made of another run of the machine, which regiond did not see the end of; one of another
	// BMC, maybe of another machine.
	if s == nil || s.Consent != consent || s.BMCAddress != "" && s.BMCAddress != BMCAddress(d.w.Spec.BMC) || s.Requested.After(d.now) || !d.now.Before(s.Requested.Add(3*shutdownTime)) {
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

// takeover says whether the operator allows to end what runs on the server although regiond did not start it.
func takeover(w Wish, now time.Time) bool {
	t := w.Spec.TakeoverUntil
	return t != nil && now.Before(t.Time)
}
