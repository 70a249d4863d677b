package sightings_test

import (
	"net"
	"testing"
	"time"

	"regiond.dev/regiond/hardware/sightings"
)

func mac(n int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0, byte(n >> 16), byte(n >> 8), byte(n)}
}

func TestOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := sightings.New(func() time.Time { now = now.Add(time.Second); return now })
	s.DHCP(mac(1), true, "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4", "exhausted")
	s.TFTP(mac(1))
	s.DHCP(mac(2), false, "", "")
	s.HTTP(mac(2))
	for name, c := range map[string]struct {
		macs []string
		uuid string
		want string
	}{
		"by MAC address":              {macs: []string{"52:54:00:00:00:99", "52:54:00:00:00:02"}, want: "52:54:00:00:00:02"},
		"in upper case":               {macs: []string{"52:54:00:00:00:01"}, want: "52:54:00:00:00:01"},
		"by UUID, in the other order": {uuid: "2e7a1b5c-049d-3b4f-8a61-0e7d3c92b5f4", want: "52:54:00:00:00:01"},
		"another machine":             {macs: []string{"52:54:00:00:00:99"}, uuid: "c2d90b1e-77a4-4a53-b1f6-52e80d6c3a94"},
		"nothing is known of it":      {},
		"the last one of both":        {macs: []string{"52:54:00:00:00:02"}, uuid: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4", want: "52:54:00:00:00:02"},
	} {
		if got := s.Of(c.macs, c.uuid); got.MAC != c.want {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
	}
	v := s.Of([]string{"52:54:00:00:00:01"}, "")
	if v.FirmwareDHCP.IsZero() || v.Unanswered != "exhausted" || !v.TFTP.After(v.DHCP) || !v.HTTP.IsZero() {
		t.Errorf("sighting %+v", v)
	}
	if v := s.Of([]string{"52:54:00:00:00:02"}, ""); !v.FirmwareDHCP.IsZero() || v.HTTP.IsZero() {
		t.Errorf("sighting %+v", v)
	}
}

// Whoever sends from ever new MAC addresses fills no memory.
func TestSightingsAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := sightings.New(func() time.Time { now = now.Add(time.Second); return now })
	const n = 4096
	for i := range n + 1 {
		s.DHCP(mac(i), true, "", "")
	}
	if v := s.Of([]string{mac(0).String()}, ""); v.MAC != "" {
		t.Errorf("the oldest is still there: %+v", v)
	}
	for _, i := range []int{1, n} {
		if v := s.Of([]string{mac(i).String()}, ""); v.MAC == "" {
			t.Errorf("number %d was forgotten", i)
		}
	}
}

func TestNilRemembersNothing(t *testing.T) {
	var s *sightings.Sightings
	s.DHCP(mac(1), true, "", "")
	if v := s.Of([]string{mac(1).String()}, ""); v.MAC != "" {
		t.Errorf("got %+v", v)
	}
}
