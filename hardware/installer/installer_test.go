package installer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/hardware/installer"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
)

// An installation from the first word to the reboot, over a wire that corrupts a chunk, cuts one off and is
// away for a while.
func TestInstall(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	const size = least + 3*mib + 512*7
	m.addDisk("sda", "OTHER", size)
	m.addDisk("sdb", "WANTED", size)
	other := m.read("sda")
	chunks := i.manifest.Partitions[2].Chunks
	g.chunkFault = func(w http.ResponseWriter, sum string, n int) bool {
		c := slices.IndexFunc([]string{chunks[0].SHA256, chunks[1].SHA256, chunks[2].SHA256}, func(s string) bool { return s == sum })
		if n > 1 || c < 0 {
			return false
		}
		switch c {
		case 0: // one byte is wrong
			b, err := os.ReadFile(filepath.Join(i.dir, "chunks", sum))
			if err != nil {
				t.Error(err)
			}
			b[len(b)/3] ^= 4
			if _, err := w.Write(b); err != nil {
				t.Error(err)
			}
		case 1: // cut off
			w.Header().Set("Content-Length", "1000")
			if _, err := w.Write(make([]byte, 10)); err != nil {
				t.Error(err)
			}
		case 2:
			http.Error(w, "regiond restarts", http.StatusServiceUnavailable)
		}
		return true
	}
	g.apiFault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n == 1 {
			http.Error(w, "not yet", http.StatusBadGateway)
		}
		return n == 1
	}
	g.instructions = []enroll.Instruction{{WaitSeconds: 5, Message: "waiting for a profile"}, g.installTo("WANTED", size)}
	outcome, err := run(t.Context(), g, m)
	if err != nil || outcome != installer.Reboot {
		t.Fatalf("outcome %s (%v)\nfailures: %s", outcome, err, g.failures())
	}

	checkInstalled(t, m, i, "sdb")
	if m.read("sda") != other {
		t.Error("the other disk was written to")
	}
	want := inventory.InstallMarker{RegionUID: "region-uid", ServerUID: "server-uid", Image: "test-1", Complete: true}
	got := m.marker(1)
	if got == nil || got.Installed == "" {
		t.Fatalf("marker %+v", got)
	}
	got.Installed = ""
	if *got != want {
		t.Errorf("marker %+v, want %+v", *got, want)
	}
	if want := []string{"sdb data ext4", "sdb esp vfat"}; !slices.Equal(m.mounted, want) {
		t.Errorf("mounted %q, want %q", m.mounted, want)
	}
	var id identity.Identity
	if err := json.Unmarshal([]byte(m.read("data/"+identity.File)), &id); err != nil || id.Hostname != "server-1" || id.JoinToken != "join" {
		t.Errorf("identity %+v (%v)", id, err)
	}
	for name, mode := range map[string]os.FileMode{"data/" + identity.File: 0o600, "data": os.ModeDir | 0o700} {
		if info, err := os.Stat(filepath.Join(m.dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("mode of %s is %v (%v), want %v", name, info.Mode(), err, mode)
		}
	}
	arguments := " rw hugepages=16 isolcpus=2-5 regiond.esp=" + espGUID(t, filepath.Join(m.dir, "sdb")) + "\n"
	if text := m.read("esp/loader/entries/regiond-a+3.conf"); !strings.Contains(text, "options root=PARTLABEL=root-a"+arguments) {
		t.Errorf("boot entry:\n%s", text)
	}
	if text := m.read("esp/grub/grub.cfg"); !strings.Contains(text, "root=PARTLABEL=root-$slot"+arguments+"then") {
		t.Errorf("grub.cfg:\n%s", text)
	}
	if order := m.read("efivars/BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c"); order != "\x07\x00\x00\x00\x00\x00" {
		t.Errorf("BootOrder %q", order)
	}
	end := g.last("Installed")
	if end.Refetched != 1 || end.BytesWritten != i.manifest.Bytes() || end.BytesTotal != end.BytesWritten || end.Message != "" {
		t.Errorf("last report %+v; want one chunk refetched and %d bytes", end, i.manifest.Bytes())
	}
	if end.Neighbours["52:54:00:00:00:01"].PortID != "swp7" {
		t.Errorf("last report %+v lacks the neighbour heard meanwhile", end)
	}
	if g.reports[0].Stage != "Writing" || len(g.inventories) != 2 || g.inventories[0].Version != "test" {
		t.Errorf("first report %+v, %d inventories", g.reports[0], len(g.inventories))
	}
}

// espGUID is the unique GUID of a disk's EFI system partition.
func espGUID(t *testing.T, disk string) string {
	t.Helper()
	f, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, guids, err := diskimage.ReadTable(f)
	if err != nil {
		t.Fatal(err)
	}
	return guids[diskimage.LabelESP]
}

// The power is cut in the midst of writing: nothing bootable is left, and the next run installs.
func TestInstallAfterPowerCut(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	m.addDisk("vda", "DISK0", least)
	g.instructions = []enroll.Instruction{g.installTo("DISK0", least)}
	ctx, cut := context.WithCancel(t.Context())
	last := i.manifest.Partitions[3].Chunks[0].SHA256
	g.chunkFault = func(_ http.ResponseWriter, sum string, _ int) bool {
		if sum == last {
			cut()
		}
		return false
	}
	if _, err := run(ctx, g, m); err == nil {
		t.Fatal("an installation that was cut off counts as a success")
	}
	if mark := m.marker(0); mark == nil || mark.Complete || mark.ServerUID != "server-uid" {
		t.Fatalf("marker after the cut: %+v; want an incomplete one of ours", mark)
	}
	if hasTable(m, "vda") {
		t.Fatal("firmware would boot half an image")
	}
	g.chunkFault = nil
	if outcome, err := run(t.Context(), g, m); err != nil || outcome != installer.Reboot {
		t.Fatalf("second run: %s (%v)\n%s", outcome, err, g.failures())
	}
	checkInstalled(t, m, i, "vda")
	if mark := m.marker(0); mark == nil || !mark.Complete {
		t.Errorf("marker %+v", mark)
	}
}

// A chunk that is never right: no partition table is written, and after the operator's decision the machine goes off.
func TestDamagedImageIsNeverBootable(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	m.addDisk("vda", "DISK0", least)
	bad := i.manifest.Partitions[2].Chunks[3].SHA256
	g.chunkFault = func(w http.ResponseWriter, sum string, _ int) bool {
		if sum == bad {
			if _, err := w.Write(make([]byte, i.manifest.Partitions[2].Chunks[3].Compressed)); err != nil {
				t.Error(err)
			}
		}
		return sum == bad
	}
	g.instructions = []enroll.Instruction{g.installTo("DISK0", least), {PowerOff: true}}
	outcome, err := run(t.Context(), g, m)
	if err != nil || outcome != installer.PowerOff {
		t.Fatalf("outcome %s (%v)", outcome, err)
	}
	if failed := g.last("Failed"); failed.Refetched != 5 || !strings.Contains(failed.Message, "checksum mismatch") || !strings.Contains(failed.Message, "root-a") {
		t.Errorf("report %+v", failed)
	}
	if hasTable(m, "vda") {
		t.Error("firmware would boot a damaged image")
	}
	if mark := m.marker(0); mark == nil || mark.Complete {
		t.Errorf("marker %+v, want an incomplete one", mark)
	}
}

// The image is gone from the server: waited for, but not for ever.
func TestImageServerStaysAway(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	m.addDisk("vda", "DISK0", least)
	g.chunkFault = func(w http.ResponseWriter, _ string, _ int) bool {
		http.Error(w, "gone", http.StatusNotFound)
		return true
	}
	g.instructions = []enroll.Instruction{g.installTo("DISK0", least), {PowerOff: true}}
	if outcome, err := run(t.Context(), g, m); err != nil || outcome != installer.PowerOff {
		t.Fatalf("outcome %s (%v)", outcome, err)
	}
	if failed := g.last("Failed"); !strings.Contains(failed.Message, "no success for 5m0s") || !strings.Contains(failed.Message, "404") || failed.Refetched != 0 {
		t.Errorf("report %+v", failed)
	}
}

// A later step fails: the next try does everything again.
func TestFailureIsReportedAndTriedAgain(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	m.addDisk("vda", "DISK0", least)
	m.mountErr = errMount
	g.instructions = []enroll.Instruction{g.installTo("DISK0", least)}
	outcome, err := run(t.Context(), g, m)
	if err != nil || outcome != installer.Reboot {
		t.Fatalf("outcome %s (%v)", outcome, err)
	}
	if !strings.Contains(g.failures(), errMount.Error()) {
		t.Errorf("failures %q", g.failures())
	}
	if g.last("Installed"); m.marker(0) == nil || !m.marker(0).Complete {
		t.Error("the second try did not complete")
	}
}

// Whatever is not exactly as regiond believes is refused before a byte is written.
func TestRefusalsWriteNothing(t *testing.T) {
	i := newImage(t)
	for name, tc := range map[string]struct {
		prepare func(m *machine)
		change  func(job *enroll.Install)
		want    string
	}{
		"two disks":     {prepare: func(m *machine) { m.addDisk("vdb", "DISK0", least) }, want: "2 disks match"},
		"no disk":       {change: func(j *enroll.Install) { j.Disk.SerialNumber = "GONE" }, want: `no disk matches serial "GONE"`},
		"lists disks":   {change: func(j *enroll.Install) { j.Disk.Bytes++ }, want: "vda (SSD, 63963136 bytes, serial DISK0)"},
		"only a size":   {change: func(j *enroll.Install) { j.Disk.SerialNumber = "" }, want: "neither by serial number nor by WWN"},
		"too small":     {change: func(j *enroll.Install) { j.Manifest.Partitions[3].Size += mib }, want: "needs a disk of at least 65011712 bytes"},
		"held by md":    {prepare: func(m *machine) { m.holders = []string{"md127"} }, want: "is held by md127"},
		"shared":        {prepare: func(m *machine) { m.disks[0].Content = "GPT, VMFS" }, want: "shared file system (VMFS)"},
		"sick":          {prepare: func(m *machine) { m.disks[0].Problem = "it did not answer within 1m0s" }, want: "is sick (it did not answer within 1m0s)"},
		"data":          {prepare: func(m *machine) { m.disks[0].Content = "XFS" }, change: func(j *enroll.Install) { j.Overwrite = false }, want: "holds XFS, and regiond's instruction does not say that it may be lost"},
		"shrunk":        {prepare: func(m *machine) { m.shrink("vda") }, want: "not the one of the inventory"},
		"no region":     {change: func(j *enroll.Install) { j.Identity.RegionUID = "" }, want: "regionUID"},
		"bad argument":  {change: func(j *enroll.Install) { j.Identity.KernelArguments = []string{"a\nb"} }, want: "control characters"},
		"bad manifest":  {change: func(j *enroll.Install) { j.Manifest.Partitions[2].Chunks[0].SHA256 = "../x" }, want: "sha256"},
		"empty version": {change: func(j *enroll.Install) { j.Manifest.Version = "" }, want: "version is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRegiond(t, i)
			m := newMachine(t)
			m.addDisk("vda", "DISK0", least)
			if tc.prepare != nil {
				tc.prepare(m)
			}
			before := m.read("vda")
			instruction := g.installTo("DISK0", least)
			if tc.change != nil {
				instruction = clone(t, instruction)
				tc.change(instruction.Install)
			}
			g.instructions = []enroll.Instruction{instruction, {PowerOff: true}}
			if outcome, err := run(t.Context(), g, m); err != nil || outcome != installer.PowerOff {
				t.Fatalf("outcome %s (%v)", outcome, err)
			}
			if failed := g.last("Failed"); !strings.Contains(failed.Message, tc.want) {
				t.Errorf("message %q, want %q", failed.Message, tc.want)
			}
			if m.read("vda") != before {
				t.Error("the disk was written to")
			}
		})
	}
}

// Without a boot entry firmware may boot another disk: that is a failed installation, and the disk is not said to be installed.
func TestMissingBootEntryIsAFailure(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	m.addDisk("vda", "DISK0", least)
	if err := os.RemoveAll(m.EFIVariables()); err != nil {
		t.Fatal(err)
	}
	g.instructions = []enroll.Instruction{g.installTo("DISK0", least), {PowerOff: true}}
	if outcome, err := run(t.Context(), g, m); err != nil || outcome != installer.PowerOff {
		t.Fatalf("outcome %s (%v)", outcome, err)
	}
	if failed := g.last("Failed"); !strings.Contains(failed.Message, "boot entry") || !strings.Contains(failed.Message, "unlock") {
		t.Errorf("report %+v", failed)
	}
	if mark := m.marker(0); mark == nil || mark.Complete {
		t.Errorf("marker %+v, want an incomplete one", mark)
	}
}

func TestBootDiskAndRefusedTicket(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	g.instructions = []enroll.Instruction{{BootDisk: true}}
	if outcome, err := run(t.Context(), g, m); err != nil || outcome != installer.Reboot {
		t.Errorf("boot disk: %s (%v)", outcome, err)
	}
	g.apiFault = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		http.Error(w, `{"reason":"TokenUsed","message":"the job has ended"}`, http.StatusForbidden)
		return true
	}
	outcome, err := run(t.Context(), g, m)
	if err == nil || outcome != installer.Reboot || !strings.Contains(err.Error(), "TokenUsed") {
		t.Errorf("refused ticket: %s (%v); want a restart", outcome, err)
	}
	g.apiFault = nil
	ticket := g.ticket()
	ticket.CA = "no certificate"
	if _, err := installer.Run(t.Context(), installer.Config{Ticket: ticket}); err == nil {
		t.Error("a ticket without CA was accepted")
	}
}

// The end of an installation is reported until regiond, which was killed meanwhile, is back.
func TestEndIsReportedToARestartedRegiond(t *testing.T) {
	i := newImage(t)
	g := newRegiond(t, i)
	m := newMachine(t)
	m.addDisk("vda", "DISK0", least)
	away := 0
	g.apiFault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != enroll.PathProgress || away > 20 {
			return false
		}
		away++
		panic(http.ErrAbortHandler) // the connection is cut without an answer
	}
	g.instructions = []enroll.Instruction{g.installTo("DISK0", least)}
	if outcome, err := run(t.Context(), g, m); err != nil || outcome != installer.Reboot {
		t.Fatalf("outcome %s (%v)", outcome, err)
	}
	g.last("Installed")
}
