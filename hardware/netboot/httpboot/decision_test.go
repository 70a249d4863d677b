package httpboot

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

func TestDecision(t *testing.T) {
	job := &Job{Ticket: enroll.Ticket{Token: "secret"}, KernelArguments: []string{"console=ttyS0,115200"}}
	const disk, run = "booting the local disk", "kernel http://10.99.0.1/netboot/vmlinuz initrd=initrd.magic console=ttyS0,115200 || exit 1"
	for _, c := range []struct {
		name, path, peer string
		job              *Job
		err              error
		code             int
		want, answer     string
		asked            bool
	}{
		{name: "job", path: ask, peer: from, job: job, code: 200, want: run, answer: "job", asked: true},
		{name: "no job", path: ask, peer: from, code: 200, want: disk, answer: "disk", asked: true},
		{name: "undecided", path: ask, peer: from, err: errors.New("API is down"), code: 503, answer: "error", asked: true},
		{name: "arguments that iPXE would change", path: ask, peer: from, job: &Job{KernelArguments: []string{"${x}"}}, code: 503, answer: "error", asked: true},
		{name: "another address", path: ask, peer: "10.99.0.101:1", job: job, code: 200, want: disk, answer: "foreign-address"},
		{name: "another MAC address", path: "/ipxe?mac=52-54-00-00-00-0b&platform=efi", peer: from, job: job, code: 200, want: disk, answer: "foreign-address"},
		{name: "no MAC address", path: "/ipxe?platform=efi", peer: from, job: job, code: 200, want: disk, answer: "malformed"},
		{name: "long MAC address", path: "/ipxe?mac=00-00-00-00-00-00-00-01&platform=efi", peer: from, job: job, code: 200, want: disk, answer: "malformed"},
		{name: "no platform", path: "/ipxe?mac=52-54-00-00-00-0a", peer: from, job: job, code: 200, want: disk, answer: "malformed"},
		{name: "broken query", path: "/ipxe?mac=%zz&&&=;", peer: from, job: job, code: 200, want: disk, answer: "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.job, f.err = c.job, c.err
			w := f.get(c.path, c.peer)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("Retry-After") != "" {
				t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
			}
			if n := testutil.ToFloat64(f.decisions.WithLabelValues(c.answer)); n != 1 {
				t.Errorf("answer %s counted %v times", c.answer, n)
			}
			if c.asked != (len(f.asked) == 1) {
				t.Errorf("asked: %v", f.asked)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Error("the token is in the script")
			}
		})
	}
}

func TestClient(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", maxSerial+1)
	for query, want := range map[string]Client{
		ask: {UUID: "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab", Serial: "SN 42", Firmware: inventory.FirmwareUEFI},
		"/ipxe?mac=52:54:00:00:00:0A&platform=pcbios&uuid=not-one&serial=" + long:             {Firmware: inventory.FirmwareBIOS},
		"/ipxe?mac=52:54:00:00:00:0a&platform=pcbios&serial=a%0Ashell&uuid=%0A":               {Firmware: inventory.FirmwareBIOS},
		"/ipxe?mac=52:54:00:00:00:0a&platform=pcbios&serial=%24%7Bx%7D&mac=00:00:00:00:00:01": {Firmware: inventory.FirmwareBIOS, Serial: "${x}"},
	} {
		f.asked = nil
		f.get(query, from)
		if len(f.asked) != 1 {
			t.Fatalf("%s: asked %v", query, f.asked)
		}
		got := f.asked[0]
		if got.MAC.String() != mac || got.Address.String() != "10.99.0.100" {
			t.Errorf("%s: %+v", query, got)
		}
		got.MAC, got.Address = nil, netip.Addr{}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
	}
}
