package enrollment_test

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

func TestInstallation(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	if ticket.URL != "https://10.99.0.1:7443" || ticket.CA == "" || ticket.MACAddress != mac1 || ticket.Time == "" {
		t.Errorf("ticket %+v", ticket)
	}
	// Of the token only the hash is kept.
	secret := &corev1.Secret{}
	if err := w.get(secret, server.Namespace, "ticket-s1"); err != nil {
		t.Fatal(err)
	}
	for k, v := range secret.Data {
		if bytes.Contains(v, []byte(ticket.Token)) || strings.Contains(ticket.Token, string(v)) && len(v) > 10 {
			t.Errorf("the Secret holds the token in %s", k)
		}
	}
	if !metav1.IsControlledBy(secret, &region.Server{ObjectMeta: metav1.ObjectMeta{UID: "uid-1"}}) {
		t.Error("the token does not belong to the server")
	}

	w.image = enrollment.ErrNoImage
	var i enroll.Instruction
	if code, _ := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), &i); code != 200 || i.WaitSeconds == 0 || !strings.Contains(i.Message, "image build") {
		t.Errorf("without an image: %d %+v", code, i)
	}
	w.image, i = nil, enroll.Instruction{}
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), &i); code != 200 {
		t.Fatalf("%d %s", code, reason)
	}
	id := i.Install.Identity
	if i.Install.Disk != (enroll.DiskIdentity{SerialNumber: "D1", WWN: "naa.5", Bytes: 20e9}) || i.Install.ImageURL != "http://10.99.0.1/images/trixie-1" ||
		id.Hostname != "s1" || id.ServerUID != "uid-1" || id.RegionUID != "region-uid" || id.JoinToken == "" || id.Role != "compute" || id.Image != "trixie-1" ||
		len(id.KernelArguments) != 1 || len(id.Network.Interfaces) != 1 || id.Network.Interfaces[0].MACAddress != mac1 || id.EnrollURL != ticket.URL || id.CA == "" {
		t.Errorf("install %+v", i.Install)
	}
	s := &region.Server{}
	for _, p := range []enroll.Progress{{Stage: "Writing", BytesWritten: 5, BytesTotal: 10}, {Stage: "Writing", BytesWritten: 7, BytesTotal: 10, Refetched: 1, Message: strings.Repeat("x", 1<<15)}, {Stage: "Installed", BytesWritten: 10, BytesTotal: 10, Neighbours: map[string]inventory.LLDPNeighbour{mac1: {PortID: "swp7"}, mac2: {PortID: "swp8"}}}, {Stage: "Installed"}} {
		if code, reason := w.send(enroll.PathProgress, ticket.Token, p, nil); code != 204 {
			t.Errorf("%+v: %d %s", p.Stage, code, reason)
		}
		if err := w.get(s, "", "s1"); err != nil {
			t.Fatal(err)
		}
		if st := s.Status.Installation; string(st.Stage) != p.Stage || len(st.Message) > 1024 {
			t.Errorf("status after %s is %+v", p.Stage, st)
		}
	}
	if st := s.Status.Installation; st.Finished == nil || st.Started == nil || st.BytesWritten != 10 || st.Disk != "D1" || st.Image != "trixie-1" {
		t.Errorf("status %+v", st)
	}
	if nics := s.Status.Inventory.NICs; len(nics) != 1 || nics[0].LLDP == nil || nics[0].LLDP.PortID != "swp7" {
		t.Errorf("the neighbour heard during the installation is not in the inventory: %+v", nics)
	}
	// The job is over: no more writing, no new ticket.
	if code, reason := w.send(enroll.PathProgress, ticket.Token, enroll.Progress{Stage: "Writing"}, nil); code != 409 || reason != enroll.ReasonNoJob {
		t.Errorf("writing after the end: %d %s", code, reason)
	}
	i = enroll.Instruction{}
	if code, _ := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), &i); code != 200 || !i.BootDisk {
		t.Errorf("inventory after the end: %d %+v", code, i)
	}
	if n := w.get1("s1").Status.Netboot; n.Ended == nil {
		t.Errorf("the machine boots its disk, and the network boot is not over: %+v", n)
	}
	if again := w.netboot(uuid1, "SN1", mac1); again != nil {
		t.Error("an installed server was given a ticket")
	}
}

func TestUnknownMachineGetsNothing(t *testing.T) {
	w := newWorld(t)
	for _, m := range [][2]string{{"", ""}, {"12121212-0000-1000-8000-000000000000", "?"}, {"garbage", "Default string"}} {
		if w.netboot(m[0], m[1], mac1) != nil {
			t.Errorf("machine %q was given a ticket", m)
		}
	}
}

// A blade that shows its chassis' serial number is not the server of another blade, and its server says what came.
func TestBladeWithTheChassisSerialGetsNoTicket(t *testing.T) {
	w := newWorld(t)
	condition := func() *metav1.Condition {
		s := &region.Server{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "s1"}, s); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(s.Status.Conditions, region.ConditionMachineIdentity)
	}
	mac, err := net.ParseMAC(mac1)
	if err != nil {
		t.Fatal(err)
	}
	blade := enrollment.Machine{MAC: mac, UUID: "b3f08d52-9c17-4e6a-a0d4-1f7e25c96b38", Serial: "SN1"}
	if ticket, err := w.server.Netboot(t.Context(), blade); ticket != nil || err != nil {
		t.Errorf("a machine with the serial number of s1 and another UUID was given a ticket (%v)", err)
	}
	if c := condition(); c == nil || c.Reason != region.ReasonIdentityConflict || !strings.Contains(c.Message, mac1) {
		t.Errorf("condition of s1 is %+v, want what came", c)
	}
	if ticket, err := w.server.Netboot(t.Context(), enrollment.Machine{MAC: mac, UUID: uuid1, Serial: "SN1"}); ticket == nil || err != nil {
		t.Errorf("s1 itself was given no ticket (%v)", err)
	}
	if c := condition(); c != nil {
		t.Errorf("condition of s1 is %+v after it came itself, want none", c)
	}
}

func TestRefusedPlanPowersOff(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	var i enroll.Instruction
	foreign := inventory.Disk{Name: "vda", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD, Content: "LVM"}
	if code, _ := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1, foreign), &i); code != 200 || !i.PowerOff || i.Install != nil || !strings.Contains(i.Message, "LVM") {
		t.Errorf("%d %+v", code, i)
	}
	if s := w.get1("s1"); s.Status.Installation.Stage != region.StageFailed || s.Status.Installation.Refusal != "DiskNotSelected" || s.Status.Inventory == nil {
		t.Errorf("%+v", s.Status)
	}
}

func TestAdoption(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	marked := inventory.Disk{Name: "vda", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD,
		Marker: &inventory.InstallMarker{RegionUID: "region-uid", ServerUID: "uid-1", Complete: true, Image: "trixie-0", Installed: "2026-01-01T00:00:00Z"}}
	var i enroll.Instruction
	if code, _ := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1, marked), &i); code != 200 || !i.BootDisk || i.Install != nil {
		t.Errorf("%d %+v", code, i)
	}
	s := &region.Server{}
	if err := w.get(s, "", "s1"); err != nil {
		t.Fatal(err)
	}
	if st := s.Status.Installation; st.Stage != region.StageInstalled || st.Image != "trixie-0" || st.Finished.UTC().Format(time.RFC3339) != "2026-01-01T00:00:00Z" {
		t.Errorf("%+v", st)
	}
	if w.get(&corev1.Secret{}, server.Namespace, "join-s1") == nil {
		t.Error("an adopted system needs no join token")
	}
}

// Later requests are not ignored because a clock that was wrong wrote the marker.
func TestAdoptionOfMarkerFromTheFuture(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	marked := inventory.Disk{Name: "vda", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD,
		Marker: &inventory.InstallMarker{RegionUID: "region-uid", ServerUID: "uid-1", Complete: true, Image: "trixie-0", Installed: "2099-01-01T00:00:00Z"}}
	var i enroll.Instruction
	if code, _ := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1, marked), &i); code != 200 || !i.BootDisk {
		t.Errorf("%d %+v", code, i)
	}
	if got := w.get1("s1").Status.Installation.Finished; !got.Time.Equal(w.now) {
		t.Errorf("installed at %s by regiond's record, want %s", got, w.now)
	}
}

// The host objects of the system that an installation overwrites go before the first byte is written.
func TestReinstallationForgetsTheHost(t *testing.T) {
	w := newWorld(t)
	s := &region.Server{}
	if err := w.get(s, "", "s1"); err != nil {
		t.Fatal(err)
	}
	if err := host.Ensure(t.Context(), w.api, s, nil, host.Holders{}); err != nil {
		t.Fatal(err)
	}
	w.installed(uuid1, "SN1", mac1)
	for _, o := range []client.Object{&region.Host{}, &coordinationv1.Lease{}} {
		ns := ""
		if _, lease := o.(*coordinationv1.Lease); lease {
			ns = host.Namespace
		}
		if err := w.get(o, ns, "s1"); !apierrors.IsNotFound(err) {
			t.Errorf("%T: %v", o, err)
		}
	}
}

func TestTicketIsBound(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	for _, tt := range []struct {
		name, token string
		report      enroll.InventoryReport
		code        int
		reason      string
	}{
		{"no token", "", report(uuid1, mac1), 401, enroll.ReasonTokenUnknown},
		{"no server", "nobody.abc", report(uuid1, mac1), 401, enroll.ReasonTokenUnknown},
		{"path in the name", "../s1.abc", report(uuid1, mac1), 401, enroll.ReasonTokenUnknown},
		{"guessed", "s1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", report(uuid1, mac1), 401, enroll.ReasonTokenUnknown},
		{"for another server", "s2" + strings.TrimPrefix(ticket.Token, "s1"), report(uuid2, mac2), 401, enroll.ReasonTokenUnknown},
		{"cut off", ticket.Token[:len(ticket.Token)-1], report(uuid1, mac1), 401, enroll.ReasonTokenUnknown},
		{"from another machine", ticket.Token, report(uuid2, mac1), 403, enroll.ReasonWrongServer},
		{"from another NIC", ticket.Token, report(uuid1, mac2), 403, enroll.ReasonWrongServer},
	} {
		if code, reason := w.send(enroll.PathInventory, tt.token, tt.report, nil); code != tt.code || reason != tt.reason {
			t.Errorf("%s: %d %s, want %d %s", tt.name, code, reason, tt.code, tt.reason)
		}
	}
	// The other byte order of the UUID is the same machine; a new ticket ends the old one.
	w = newWorld(t)
	old := w.netboot(uuid1, "SN1", mac1)
	ticket = w.netboot(uuid1, "SN1", mac1)
	if code, reason := w.send(enroll.PathInventory, old.Token, report(uuid1, mac1), nil); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("replaced ticket: %d %s", code, reason)
	}
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report("5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4", strings.ToUpper(mac1)), nil); code != 200 {
		t.Errorf("%d %s", code, reason)
	}
}

func TestProgressIsChecked(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil); code != 200 {
		t.Fatal(code, reason)
	}
	for _, p := range []enroll.Progress{{Stage: ""}, {Stage: "Inspecting"}, {Stage: "Ready"}, {Stage: "Writing", BytesWritten: -1}} {
		if code, reason := w.send(enroll.PathProgress, ticket.Token, p, nil); code != 400 || reason != enroll.ReasonMalformed {
			t.Errorf("%+v: %d %s", p, code, reason)
		}
	}
	if code, reason := w.send(enroll.PathProgress, "s1.x", enroll.Progress{Stage: "Writing"}, nil); code != 401 {
		t.Errorf("%d %s", code, reason)
	}
}

// A disk that was seen before, or that the profile names, is waited for before another one may be "the only one that fits";
// one that stays away for two minutes is not there any more.
func TestMissingDiskIsAwaited(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	first := inventory.Disk{Name: "sda", SerialNumber: "D0", Bytes: 20e9, Type: inventory.DiskSSD, Content: "XFS"}
	second := inventory.Disk{Name: "sdb", SerialNumber: "D1", Bytes: 20e9, Type: inventory.DiskSSD, Blank: true}
	s := &region.Server{}
	if err := w.get(s, "", "s1"); err != nil {
		t.Fatal(err)
	}
	s.Status.Netboot.Requested = &metav1.Time{Time: w.now}
	s.Status.Inventory = &inventory.Inventory{Disks: []inventory.Disk{first, second}}
	if err := w.api.Status().Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ask := func() (i enroll.Instruction) {
		if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1, second), &i); code != 200 {
			t.Fatalf("%d %s", code, reason)
		}
		return i
	}
	for range 2 { // also asked again
		if i := ask(); i.Install != nil || i.PowerOff || i.WaitSeconds != 5 || !strings.Contains(i.Message, "serial D0") {
			t.Fatalf("instruction %+v, want to wait for disk D0", i)
		}
		w.now = w.now.Add(time.Minute)
	}
	if err := w.get(s, "", "s1"); err != nil || len(s.Status.Inventory.Disks) != 2 || !strings.Contains(s.Status.Installation.Message, "serial D0") {
		t.Errorf("status while waiting %+v (%v)", s.Status, err)
	}
	if i := ask(); i.Install == nil || i.Install.Disk.SerialNumber != "D1" {
		t.Errorf("instruction after two minutes %+v, want an installation to D1", i)
	}
}
