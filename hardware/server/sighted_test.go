package server_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/hardware/sightings"
	"regiond.dev/regiond/region"
)

// The message of a network boot that does not come is about what the services of the provisioning
// network saw of the machine since it was asked for, and not about anything else.
func TestNetbootMessageSaysWhatWasSeen(t *testing.T) {
	at := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	const mac = "52:54:00:00:00:01"
	for name, c := range map[string]struct {
		seen      sightings.Sighting
		listening time.Time
		want      string
		not       string
	}{
		"nothing":                     {want: "no DHCP, TFTP or HTTP request of it was seen since 2026-03-01T11:54:00Z (it is known by system UUID 5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4): check the cabling"},
		"only before it was asked":    {seen: sightings.Sighting{MAC: mac, DHCP: at(7), FirmwareDHCP: at(7), TFTP: at(7)}, want: "no DHCP, TFTP or HTTP request"},
		"regiond started meanwhile":   {listening: at(5), want: "was seen since 2026-03-01T11:55:00Z"},
		"an operating system":         {seen: sightings.Sighting{MAC: mac, DHCP: at(2), FirmwareDHCP: at(8)}, want: "DHCP of 52:54:00:00:00:01 was seen at 2026-03-01T11:58:00Z, but not of its network boot firmware"},
		"DHCP only":                   {seen: sightings.Sighting{MAC: mac, DHCP: at(3), FirmwareDHCP: at(3)}, want: "DHCP seen at 2026-03-01T11:57:00Z, TFTP never, HTTP never of 52:54:00:00:00:01: it was given an address and fetches nothing: check that UDP 69", not: "edge port"},
		"DHCP was not answered":       {seen: sightings.Sighting{MAC: mac, DHCP: at(3), FirmwareDHCP: at(3), Unanswered: "exhausted"}, want: "its request was not answered (exhausted)"},
		"another DHCP server":         {seen: sightings.Sighting{MAC: mac, DHCP: at(3), FirmwareDHCP: at(3), Unanswered: "other-server"}, want: "it took the offer of another DHCP server"},
		"DHCP and TFTP":               {seen: sightings.Sighting{MAC: mac, DHCP: at(3), FirmwareDHCP: at(3), TFTP: at(2)}, want: "TFTP seen at 2026-03-01T11:58:00Z, HTTP never of 52:54:00:00:00:01: it fetched the boot loader"},
		"DHCP and HTTP (UEFI by URL)": {seen: sightings.Sighting{MAC: mac, DHCP: at(3), FirmwareDHCP: at(3), HTTP: at(2)}, want: "TFTP never, HTTP seen at 2026-03-01T11:58:00Z of 52:54:00:00:00:01: a boot loader runs"},
	} {
		f := answered(region.PowerOn)
		f.Sighted, f.Listening = c.seen, c.listening
		f.Status.Netboot = &region.NetbootStatus{Requested: ago(6 * time.Minute), Attempts: 1}
		late := now.Add(6 * time.Minute) // also for a regiond that started meanwhile
		f.BMC.Time = late.Add(-time.Second)
		d := server.Decide(desired(), f, late)
		ready := meta.FindStatusCondition(d.Conditions, region.ConditionReady)
		if ready.Reason != region.ReasonNetbootTimeout || !strings.Contains(ready.Message, c.want) || c.not != "" && strings.Contains(ready.Message, c.not) {
			t.Errorf("%s: got %s: %s\nwant %q in it, and not %q", name, ready.Reason, ready.Message, c.want, c.not)
		}
	}
	// While there is still time, only what was seen is told.
	f := answered(region.PowerOn)
	f.Status.Netboot = &region.NetbootStatus{Requested: ago(time.Minute), Attempts: 1}
	message := func() string {
		return meta.FindStatusCondition(server.Decide(desired(), f, now).Conditions, region.ConditionReady).Message
	}
	if m := message(); !strings.HasSuffix(m, "; nothing to do") {
		t.Errorf("nothing was seen yet: %s", m)
	}
	f.Sighted = sightings.Sighting{MAC: mac, DHCP: now, FirmwareDHCP: now}
	if m := message(); !strings.Contains(m, "DHCP seen at 2026-03-01T12:00:00Z, TFTP never") {
		t.Errorf("DHCP was seen: %s", m)
	}
}
