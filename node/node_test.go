package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/node/apply"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRenderNetwork(t *testing.T) {
	for name, n := range map[string]identity.Network{
		"default": {Interfaces: []identity.Interface{{Name: "lan0", MACAddress: "52:54:00:00:00:01", Addresses: identity.Addresses{DHCP: true}}}},
		"static": {Interfaces: []identity.Interface{{Name: "mgmt0", MACAddress: "52:54:00:00:00:01",
			Addresses: identity.Addresses{Addresses: []string{"10.0.0.5/24", "10.0.1.5/24"}, Gateway: "10.0.0.1", MTU: 9000}}}},
		"bond": {
			Interfaces: []identity.Interface{
				{Name: "lan0", MACAddress: "52:54:00:00:00:01"}, {Name: "lan1", MACAddress: "52:54:00:00:00:02"},
				{Name: "spare0", MACAddress: "52:54:00:00:00:03"}},
			Bonds: []identity.Bond{{Name: "bond0", Interfaces: []string{"lan0", "lan1"}, Mode: "802.3ad", LACPRate: "fast", XmitHashPolicy: "layer3+4", Addresses: identity.Addresses{DHCP: true, MTU: 9000}}},
		},
	} {
		var got bytes.Buffer
		for _, f := range RenderNetwork(n) {
			got.WriteString("==> " + f.Name + "\n" + f.Content)
		}
		golden := filepath.Join("testdata", "network-"+name+".golden")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got.Bytes(), want)
		}
	}
}

// writeIdentity makes a data partition with an identity.
func writeIdentity(t testing.TB, dir string, id identity.Identity) {
	t.Helper()
	b, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, identity.File), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSetup(t *testing.T) {
	root := t.TempDir()
	id := identity.Identity{Hostname: "s1", Network: identity.Network{Interfaces: []identity.Interface{{Name: "lan0", MACAddress: "52:54:00:00:00:01", Addresses: identity.Addresses{DHCP: true}}}}}
	writeIdentity(t, filepath.Join(root, identity.MountPoint), id)
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	var ran []string
	name := ""
	c := SetupConfig{Root: root, Log: slog.New(slog.DiscardHandler),
		Run:         func(_ context.Context, n string, args ...string) error { ran = append(ran, n+" "+args[0]); return nil },
		SetHostname: func(n string) error { name = n; return nil }}
	for range 2 { // it may run again
		if err := Setup(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if name != "s1" || strings.Join(ran[:2], ", ") != "udevadm control, udevadm trigger" {
		t.Errorf("host name %q, ran %q", name, ran)
	}
	if b, err := os.ReadFile(filepath.Join(root, NetworkDir, "10-regiond-lan0.network")); err != nil || !strings.Contains(string(b), "DHCP=ipv4") {
		t.Errorf("%s %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "etc/hostname")); err != nil || string(b) != "s1\n" {
		t.Errorf("%s %v", b, err)
	}
	c.SetHostname = func(string) error { return errors.New("no") }
	if err := Setup(t.Context(), c); err == nil {
		t.Error("a host name that was not set was not reported")
	}
}

// Files of the configuration are there before the network comes up, also on a root file system that knows nothing of them.
func TestSetupRestoresFiles(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, identity.MountPoint)
	writeIdentity(t, data, identity.Identity{Hostname: "s1"})
	content, digest, err := configuration.Configuration{Files: []configuration.File{
		{Path: "/etc/systemd/network/10-x.network", Mode: "0644", Owner: "root", Group: "root", Content: "[Match]\n", Network: true}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	applied, err := json.Marshal(map[string]string{"digest": digest, "time": "2026-01-01T00:00:00Z", "content": string(content)})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{filepath.Join(data, apply.Folder, "applied.json"): string(applied),
		filepath.Join(root, "etc/passwd"): "root:x:0:0::/:/bin/sh\n", filepath.Join(root, "etc/group"): "root:x:0:\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := SetupConfig{Root: root, Log: slog.New(slog.DiscardHandler), SetHostname: func(string) error { return nil },
		Run: func(context.Context, string, ...string) error {
			if _, err := os.Stat(filepath.Join(root, "etc/systemd/network/10-x.network")); err != nil {
				t.Error(err)
			}
			return nil
		}}
	if err := Setup(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func TestReadIdentity(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, identity.File)
	if _, err := ReadIdentity(path); err == nil || !strings.Contains(err.Error(), "not installed by regiond") {
		t.Errorf("%v", err)
	}
	for _, bad := range []identity.Identity{
		{}, {Hostname: "../x"}, {Hostname: "UPPER"}, {Hostname: "a.b"},
		{Hostname: "s1", Network: identity.Network{Interfaces: []identity.Interface{{Name: "../../etc/x"}}}},
		{Hostname: "s1", Network: identity.Network{Interfaces: []identity.Interface{{Name: ".."}}}},
		{Hostname: "s1", Network: identity.Network{Bonds: []identity.Bond{{Name: "sixteen-bytes-xx"}}}},
	} {
		writeIdentity(t, dir, bad)
		if _, err := ReadIdentity(path); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadIdentity(path); err == nil {
		t.Error("half a file was taken")
	}
}

// fakeRoot is a file system as a host has it.
func fakeRoot(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"proc/sys/kernel/random/boot_id":    "0d8a7a7e-2b0a-4b4e-8d0c-3f6f0e1a2b3c\n",
		"proc/sys/kernel/osrelease":         "6.12.1-amd64\n",
		"proc/cmdline":                      "root=PARTLABEL=root-b regiond.mode=boot panic=10\n",
		"proc/stat":                         "cpu 1 2 3\nbtime 1767225600\nprocesses 1\n",
		"etc/os-release":                    "ID=debian\nIMAGE_ID=regiond-node\nIMAGE_VERSION=trixie-abc\n",
		"sys/class/dmi/id/product_uuid":     "11111111-2222-3333-4444-555555555555\n",
		identity.MountPoint + "/journal/.x": "",
	} {
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func fakeObserver(t testing.TB) Observer {
	return Observer{Root: fakeRoot(t),
		Units:     func(context.Context) ([]string, error) { return nil, nil },
		Addresses: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.99.0.100")}, nil },
		Inventory: func() (inventory.Inventory, error) {
			return inventory.Inventory{MemoryBytes: 8 << 30, NICs: []inventory.NIC{{Name: "eth0", LinkUp: true}, {Name: "eth1"}}}, nil
		},
		Neighbour: func(_ context.Context, name string) *inventory.LLDPNeighbour {
			return &inventory.LLDPNeighbour{PortID: "of " + name}
		}}
}

func TestObserve(t *testing.T) {
	o := fakeObserver(t)
	seen := o.Observe(t.Context())
	if seen.BootID != "0d8a7a7e-2b0a-4b4e-8d0c-3f6f0e1a2b3c" || seen.Kernel != "6.12.1-amd64" || seen.Slot != "B" || seen.Image != "trixie-abc" ||
		!seen.BootTime.Equal(time.Unix(1767225600, 0)) || len(seen.Space) != 2 || len(seen.Errors) != 0 {
		t.Errorf("%+v", seen)
	}
	if o.SystemUUID() != "11111111-2222-3333-4444-555555555555" {
		t.Error(o.SystemUUID())
	}
	o.Root = t.TempDir()
	if empty := o.Observe(t.Context()); len(empty.Errors) < 4 {
		t.Errorf("what could not be seen is not told: %+v", empty)
	}
	for cmdline, want := range map[string]string{"quiet root=PARTLABEL=root-a": "A", "root=/dev/sda1": "", "": "", "xroot=PARTLABEL=root-a": ""} {
		if got := slot(cmdline); got != want {
			t.Errorf("slot of %q is %q", cmdline, got)
		}
	}
	units := parseUnits([]byte("foo.service loaded failed failed Foo\nregiond-node-healthy.service loaded failed failed X\n\nbar.mount loaded failed failed Bar\n"))
	if strings.Join(units, " ") != "bar.mount foo.service" {
		t.Error(units)
	}
}

func TestJudge(t *testing.T) {
	full := Space{Mount: "/", FreePercent: 50, FreeInodesPercent: 50}
	for _, tt := range []struct {
		name    string
		o       Observation
		offset  time.Duration
		reason  string
		message string
	}{
		{"well", Observation{Space: []Space{full}}, 0, "Healthy", ""},
		{"failed unit", Observation{FailedUnits: []string{"a.service", "b.mount"}}, 0, "UnitsFailed", "a.service, b.mount"},
		{"disk", Observation{Space: []Space{{"/var/lib/regiond", 4, 50}}}, 0, "DiskFull", "/var/lib/regiond"},
		{"inodes", Observation{Space: []Space{{"/", 50, 1}}}, 0, "DiskFull", "inodes of /"},
		{"clock ahead", Observation{}, -time.Minute, "ClockWrong", "NTP"},
		{"clock behind", Observation{}, time.Hour, "ClockWrong", "NTP"},
		{"blind", Observation{Errors: []string{"boot ID: gone"}}, 0, "ObservationFailed", "gone"},
		{"two things", Observation{FailedUnits: []string{"a.service"}}, time.Hour, "UnitsFailed", "clock"},
	} {
		healthy, reason, message := Judge(tt.o, tt.offset)
		if healthy != (tt.reason == "Healthy") || reason != tt.reason || !strings.Contains(message, tt.message) {
			t.Errorf("%s: %v %s %q", tt.name, healthy, reason, message)
		}
	}
}

// TestSteady: a host of which one part can't be observed once is told as before, and the second time it is told.
func TestSteady(t *testing.T) {
	good := Observation{BootID: "a", Kernel: "6.12"}
	blind := Observation{BootID: "a", Kernel: "6.12", Errors: []string{"failed units: systemctl: killed"}}
	other := blind
	other.BootID = "b"
	failed := Observation{BootID: "a", FailedUnits: []string{"x.service"}}
	for name, c := range map[string]struct {
		now, before, want Observation
	}{
		"well":                    {good, good, good},
		"once":                    {blind, good, good},
		"twice":                   {blind, blind, blind},
		"the first look":          {blind, Observation{}, blind},
		"after a reboot":          {other, good, other},
		"a unit failed":           {failed, good, failed},
		"it is well again":        {good, blind, good},
		"a unit failed, then not": {blind, failed, failed},
	} {
		if got := steady(c.now, c.before); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestBuildStatus(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	o := Observation{BootID: "b", BootTime: now.Add(-time.Hour), Kernel: "6.12", Addresses: []string{"10.0.0.1"}}
	conf := apply.Report{Digest: "d", Applied: now, Configured: true, Reason: "Applied", Message: strings.Repeat("é", bounded.MaxMessage), Processes: []apply.Process{{
		Run: apply.Run{State: service.State{Name: "x.service", Active: "active", PID: 7, Started: now, Restarts: 2}, Digest: "x"}, Image: "i", Kernel: "k"}}}
	first := buildStatus(o, 0, "v1", "trixie-1", nil, refusedInventory{}, conf, region.HostStatus{}, now)
	if first.Image != "trixie-1" || first.AgentVersion != "v1" || len(first.Conditions) != 2 || first.Conditions[0].Status != metav1.ConditionTrue ||
		first.Conditions[1].Type != region.ConditionConfigured || len(first.Conditions[1].Message) > bounded.MaxMessage {
		t.Errorf("%+v", first)
	}
	// The status comes back from the API server with whole seconds, in another zone.
	b, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	var stored region.HostStatus
	if err := json.Unmarshal(b, &stored); err != nil {
		t.Fatal(err)
	}
	o.BootTime = o.BootTime.Add(3 * time.Second) // the clock was set
	if again := buildStatus(o, 0, "v1", "trixie-1", nil, refusedInventory{}, conf, stored, now.Add(time.Hour)); !sameStatus(again, stored) {
		t.Errorf("an idle host would write its status again: %+v, then %+v", stored, again)
	}
	if p := stored.Configuration.Processes[0]; p.Service != "x.service" || p.PID != 7 || p.ConfigDigest != "x" || p.Restarts != 2 || p.Image != "i" || p.Kernel != "k" || stored.Configuration.Digest != "d" {
		t.Errorf("%+v", p)
	}
	// An agent that has not looked yet keeps what was said, and takes nothing back.
	said := conf
	conf = apply.Report{}
	if again := buildStatus(o, 0, "v1", "trixie-1", nil, refusedInventory{}, conf, stored, now); !sameStatus(again, stored) {
		t.Errorf("%+v", again)
	}
	conf = said
	conf.Processes[0].Started = now.Add(time.Second)
	if again := buildStatus(o, 0, "v1", "trixie-1", nil, refusedInventory{}, conf, stored, now); sameStatus(again, stored) {
		t.Error("a restart was not noticed")
	}
	conf.Processes[0].Started = now
	o.FailedUnits = []string{"x.service"}
	sick := buildStatus(o, 0, "v1", "trixie-1", nil, refusedInventory{}, conf, stored, now.Add(time.Hour))
	if sameStatus(sick, stored) || sick.Conditions[0].Status != metav1.ConditionFalse || !sick.Conditions[0].LastTransitionTime.After(now) {
		t.Errorf("%+v", sick)
	}
	o.BootID = "c"
	if booted := buildStatus(o, 0, "v1", "trixie-1", nil, refusedInventory{}, conf, stored, now); !booted.BootTime.Time.Equal(o.BootTime) {
		t.Errorf("%+v", booted.BootTime)
	}
}

func TestBootProven(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name string
		s    State
		want bool
	}{
		{"not joined", State{}, false},
		{"joined, no heartbeat", State{Joined: true}, false},
		{"heartbeat", State{Joined: true, LastSuccess: now.Add(-10 * time.Second)}, true},
		{"heartbeat long ago", State{Joined: true, LastSuccess: now.Add(-time.Minute)}, false},
	} {
		if got, why := bootProven(tt.s, now, now); got != tt.want || why == "" {
			t.Errorf("%s: %v %q", tt.name, got, why)
		}
	}
}

func TestHealthy(t *testing.T) {
	dir, o := t.TempDir(), fakeObserver(t)
	writeIdentity(t, dir, identity.Identity{Hostname: "s1", Network: identity.Network{Interfaces: []identity.Interface{{Name: "lan0"}}}})
	state := filepath.Join(dir, "run", "agent.json")
	now := time.Now()
	var log bytes.Buffer
	link := error(nil)
	// Every look at the clock is a minute later, so that waiting takes no time.
	c := HealthyConfig{DataDir: dir, StateFile: state, Observer: o, Link: func(string) error { return link }, Poll: time.Millisecond,
		Now: func() time.Time { now = now.Add(time.Minute); return now }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	check := func(s *State) error {
		t.Helper()
		if s != nil {
			if err := writeState(state, *s); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		return Healthy(ctx, c)
	}
	if err := check(nil); err == nil {
		t.Error("healthy without an agent")
	}
	if err := check(&State{Error: "refused: TokenUsed"}); err == nil {
		t.Error("healthy although the region refuses this host")
	}
	if err := check(&State{Joined: true, LastSuccess: now.Add(time.Hour)}); err != nil {
		t.Errorf("joined: %v", err)
	}
	if err := check(&State{Joined: true, Unreachable: true, Error: "connection refused"}); err != nil {
		t.Errorf("region away, host in order: %v", err)
	}
	link = errors.New("interface lan0: no such device")
	if err := check(&State{Joined: true, Unreachable: true, Error: "connection refused"}); err == nil || !strings.Contains(err.Error(), "lan0") {
		t.Errorf("region away, and no interface: %v", err)
	}
}
