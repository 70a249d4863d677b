package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

const (
	regionUID = "7c0c7f0e-0000-4000-8000-000000000001"
	serverUID = "5e44e100-0000-4000-8000-000000000002"
)

func desired() server.Desired {
	return server.Desired{Name: "s1", UID: serverUID, Generation: 3, RegionUID: regionUID,
		Spec:     region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.11", Port: 623, Credentials: "lab"}},
		Profiles: []region.Profile{{Name: "all", Firmware: inventory.FirmwareBIOS}}}
}

// answered are facts with a BMC that was just asked.
func answered(power region.PowerState) server.Facts {
	return server.Facts{CredentialsVersion: "7", HeartbeatTimeout: 40 * time.Second, HeartbeatSeen: true,
		BMC: server.Observation{Outcome: server.OutcomeAnswered, Time: now.Add(-time.Second), Power: power, CredentialsVersion: "7", Generation: 3},
		Status: region.ServerStatus{
			BMC:        &region.BMCStatus{Product: "Lab", SystemUUID: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4", CredentialsVersion: "7"},
			Conditions: []metav1.Condition{{Type: region.ConditionBMCReachable, Status: metav1.ConditionTrue, Reason: "Answered", LastTransitionTime: *ago(time.Hour)}},
		}}
}

func machine(disks ...inventory.Disk) *inventory.Inventory {
	if disks == nil {
		disks = []inventory.Disk{{Name: "vda", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD, Blank: true}}
	}
	return &inventory.Inventory{
		System:   inventory.SystemInfo{Manufacturer: "QEMU", Product: "Lab", SerialNumber: "SN1", UUID: "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4"},
		CPU:      inventory.CPUInfo{Threads: 4},
		Firmware: inventory.FirmwareUEFI, MemoryBytes: 8 << 30,
		Disks: disks,
		NICs:  []inventory.NIC{{Name: "eth0", MACAddress: "52:54:00:00:00:01", Boot: true}, {Name: "eth1", MACAddress: "52:54:00:00:00:02"}},
	}
}

func host(healthy metav1.ConditionStatus) *region.Host {
	return &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "s1", CreationTimestamp: *ago(time.Hour)},
		Spec: region.HostSpec{ServerUID: serverUID}, Status: region.HostStatus{BootID: "b1", Image: "trixie-1",
			Conditions: []metav1.Condition{{Type: region.ConditionHealthy, Status: healthy, Reason: "X", Message: "unit foo failed", LastTransitionTime: *ago(time.Minute)}}}}
}

// decision is what is to follow from facts.
type decision struct {
	name  string
	power region.PowerState
	with  func(w *server.Desired, f *server.Facts)

	action server.Action
	phase  region.ServerPhase
	// condition that must be there: type, status, reason, and a part of its message
	kind    string
	status  metav1.ConditionStatus
	reason  string
	message string
}

func TestDecide(t *testing.T) {
	for _, tt := range slices.Concat(bmcDecisions(), bootDecisions(), installDecisions(), hostDecisions(), reinstallDecisions()) {
		t.Run(tt.name, func(t *testing.T) {
			w, f := desired(), answered(tt.power)
			if tt.with != nil {
				tt.with(&w, &f)
			}
			d := server.Decide(w, f, now)
			if d.Action != tt.action {
				t.Errorf("action %T%+v, want %T%+v", d.Action, d.Action, tt.action, tt.action)
			}
			if d.Phase != tt.phase {
				t.Errorf("phase %s, want %s", d.Phase, tt.phase)
			}
			c := meta.FindStatusCondition(d.Conditions, tt.kind)
			if c == nil {
				t.Fatalf("no condition %s", tt.kind)
			}
			if c.Status != tt.status || tt.reason != "" && c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
				t.Errorf("condition %s: %s %s %q, want %s %s %q", c.Type, c.Status, c.Reason, c.Message, tt.status, tt.reason, tt.message)
			}
			for _, c := range d.Conditions {
				if c.Reason == "" || c.Message == "" || c.ObservedGeneration != w.Generation {
					t.Errorf("condition %s explains nothing: %+v", c.Type, c)
				}
			}
			if _, waits := d.Action.(server.None); waits && d.After == 0 && d.Phase != region.PhaseFailed && d.Phase != region.PhaseReady && d.Phase != region.PhaseNotReady {
				t.Errorf("waits for ever: %+v", d)
			}
			if job := server.NeedsJob(w, f, "52:54:00:00:00:01", now); d.Installed && job.Needed {
				t.Error("an installed server would be given the installer")
			}
			// Deciding twice on what was decided changes nothing: the controller does not run in circles.
			s := f.Status
			d.Apply(&s, now)
			again := f
			again.Status = s
			d2, s2 := server.Decide(w, again, now), *s.DeepCopy()
			d2.Apply(&s2, now.Add(time.Second))
			d3 := server.Decide(w, again, now)
			for i := range d2.Conditions {
				if d2.Conditions[i] != d3.Conditions[i] {
					t.Errorf("not stable: %+v, then %+v", d2.Conditions[i], d3.Conditions[i])
				}
			}
		})
	}
}
