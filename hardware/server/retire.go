package server

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// retire brings a server off and keeps it off: what it would run when it is on has the passwords of its cloud.
func (d *decider) retire(blocked bool) {
	d.Retired = true
	d.installed = condition(region.ConditionInstalled, metav1.ConditionUnknown, region.ReasonRetired,
		"the server is retired; what is on its disk is left alone")
	if blocked {
		d.probeWhenDue()
		d.stop(region.PhaseNotReady, d.bmc.Reason, "it is to be retired, and regiond can't see to it that it is off: "+d.bmc.Message)
		return
	}
	poll := activePoll
	if d.f.BMC.Power == region.PowerOff {
		poll = idlePoll
	}
	asked := d.stale(poll)
	if d.f.BMC.Power == region.PowerOff {
		d.stop(region.PhaseRetired, region.ReasonRetired,
			"the server is retired and off; when it has left the rack, take it out of region.yaml and: regiond kubectl delete server "+d.want.Name)
		return
	}
	d.stop(region.PhaseNotReady, region.ReasonRetiring, "waiting for the server to shut down, since it is retired; its power is cut if it does not; nothing to do")
	if !asked && d.f.BMC.Power == region.PowerOn {
		d.shutDown(region.ConsentRetired, true)
	}
}
