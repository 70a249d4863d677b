package status_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/supervisor"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/status"
)

var (
	update = flag.Bool("update", false, "write golden files")
	now    = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// ready returns the facts of a region in which all is well.
func ready() status.Facts {
	since := now.Add(-26 * time.Hour)
	f := status.Facts{
		DataDir: "/var/lib/regiond",
		Daemon: &daemon.Snapshot{Version: "v0.1.0", Region: "tokyo", PID: 812, Started: since, Ready: true, Stage: "running",
			Components: []supervisor.Component{
				{Name: "containerd", PID: 830, Since: since, Ready: true},
				{Name: "etcd", PID: 831, Since: since, Ready: true},
				{Name: "kube-apiserver", PID: 845, Since: since, Ready: true},
				{Name: "kubelet", PID: 1790, Since: now.Add(-3 * time.Minute), Restarts: 1, Ready: true, LastExit: "signal: killed"},
			},
			Certificates: []pki.Certificate{
				{Name: "ca", NotAfter: now.AddDate(10, 0, 0), Authority: true},
				{Name: "etcd/server", NotAfter: now.AddDate(0, 11, 0)},
			}},
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "seed"}, Status: corev1.NodeStatus{
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.20.0.2"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(26 * time.Hour),
				Message: "kubelet is posting ready status"}},
		}}},
	}
	for name, bmc := range map[string]string{"node1": "10.30.0.11", "node2": "10.30.0.12"} {
		boot := ago(20 * time.Minute)
		beat := metav1.NewMicroTime(now.Add(-4 * time.Second))
		f.Servers = append(f.Servers, region.Server{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: bmc, Port: 623}},
			Status: region.ServerStatus{Power: region.PowerOn, Phase: region.PhaseReady, Conditions: []metav1.Condition{
				{Type: region.ConditionReady, Status: metav1.ConditionTrue, Reason: "AgentHealthy", Message: "the agent reports healthy",
					LastTransitionTime: ago(19 * time.Minute)}}}})
		f.Hosts = append(f.Hosts, region.Host{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: region.HostSpec{Role: region.RoleCompute},
			Status: region.HostStatus{Image: "trixie-0a1b2c3d", Slot: "A", Kernel: "6.12.48+deb13-amd64", BootTime: &boot,
				Conditions: []metav1.Condition{{Type: region.ConditionHealthy, Status: metav1.ConditionTrue, Message: "nothing is wrong"}}}})
		f.Leases = append(f.Leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &beat}})
	}
	return f
}

// openstackCluster returns a cluster that has passed the given gates.
func openstackCluster(passed ...string) region.OpenStackCluster {
	c := region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", Generation: 2}}
	c.Spec.Release, c.Spec.Address = region.ReleaseEpoxy, "10.20.0.2"
	c.Status.ObservedGeneration = 2
	all := true
	add := func(kind string, ok bool, message string) {
		k := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Proved", Message: message, LastTransitionTime: ago(7 * time.Minute)}
		if !ok {
			all = false
			k.Status, k.Reason, k.Message = metav1.ConditionFalse, "Starting", "waiting for it since 11:59; nothing to do"
		}
		c.Status.Conditions = append(c.Status.Conditions, k)
	}
	for _, g := range region.Gates {
		add(g, slices.Contains(passed, g), "seen to work")
	}
	add(region.ConditionConfigured, true, "applied")
	add(region.ConditionNodes, true, "1 of 1 nodes are ready")
	add(region.ConditionReady, all, "all is well")
	c.Status.Services = []region.OpenStackService{{Name: "keystone", Version: "2:27.0.0-3", Ready: true}}
	c.Status.Nodes = []region.OpenStackNode{{Name: "node1", Ready: true}}
	since, next := ago(3*24*time.Hour), ago(-4*24*time.Hour)
	c.Status.FernetKeys = &region.OpenStackFernetKeys{Since: &since, Next: &next}
	return c
}

func down(f status.Facts) status.Facts {
	f.Nodes, f.Servers, f.Hosts, f.Leases = nil, nil, nil, nil
	return f
}

// A root shell's umask 077 once left CoreDNS' image unreadable: the region was Ready, and no pod
// could resolve a name.
func TestCoreDNSThatIsNotRunningIsReported(t *testing.T) {
	f := ready()
	f.Servers, f.Hosts, f.Leases = nil, nil, nil
	dns := map[string]string{"k8s-app": "kube-dns"}
	f.Addons = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "coredns", Namespace: "kube-system"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: dns}}}}
	if got, want := status.Build(f).Message, "coredns is not running: its pod has not been created yet"; !strings.HasPrefix(got, want) {
		t.Errorf("without a pod: got %q, want %q", got, want)
	}
	f.Pods = []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: corev1.PodStatus{Phase: corev1.PodPending}},
		{ObjectMeta: metav1.ObjectMeta{Name: "coredns-1", Labels: dns}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128,
					Message: "exec: /coredns: permission denied"}},
			}}}},
	}
	want := "coredns is not running: CrashLoopBackOff: back-off 10s (it last exited with exec: /coredns: permission denied, exit code 128); " +
		"see regiond kubectl -n kube-system describe pods"
	if got := status.Build(f); got.Message != want || got.Ready || got.ControlPlane.Ready {
		t.Errorf("got %q, ready %t; want %q and not ready", got.Message, got.Ready, want)
	}
	f.Addons[0].Status.AvailableReplicas = 1
	if got := status.Build(f); got.Message != "" || !got.Ready {
		t.Errorf("when it runs: got %q, ready %t; want no message and ready", got.Message, got.Ready)
	}
}

func TestMissingTablesMakeTheRegionNotReady(t *testing.T) {
	f := ready()
	f.Daemon.Components = append(f.Daemon.Components, supervisor.Component{Name: "kube-proxy", PID: 900, Problem: "nftables tables missing since 12:00: x"})
	want := "kube-proxy is not ready: nftables tables missing since 12:00: x; see /var/lib/regiond/log/kube-proxy.log"
	if got := status.Build(f); got.Message != want || got.Ready {
		t.Errorf("got %q, ready %t; want %q and not ready", got.Message, got.Ready, want)
	}
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts func() status.Facts
		ready bool
	}{
		{"ready", ready, true},
		{"no-servers", func() status.Facts {
			f := ready()
			f.Servers, f.Hosts, f.Leases = nil, nil, nil
			return f
		}, true},
		{"server-waits", func() status.Facts {
			f := ready()
			for i := range f.Servers {
				if s := &f.Servers[i]; s.Name == "node2" {
					s.Spec.BMC.Port = 6230
					s.Status = region.ServerStatus{Power: region.PowerOff, Phase: region.PhaseFailed, Conditions: []metav1.Condition{
						{Type: region.ConditionReady, Status: metav1.ConditionFalse, Reason: "DiskNotUnique", LastTransitionTime: ago(90 * time.Second),
							Message: "two disks fit the profile compute: S1 (/dev/sda, 480 GB), S2 (/dev/sdb, 480 GB); narrow rootDisk"}}}
				}
			}
			f.Servers = append(f.Servers, region.Server{ObjectMeta: metav1.ObjectMeta{Name: "node3"},
				Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.30.0.13"}}})
			f.Hosts = append(f.Hosts, region.Host{ObjectMeta: metav1.ObjectMeta{Name: "node3"}})
			return f
		}, false},
		{"etcd-down", func() status.Facts {
			f := down(ready())
			f.APIError = "dial tcp 10.20.0.2:6443: connect: connection refused"
			c := f.Daemon.Components
			c[1] = supervisor.Component{Name: "etcd", Restarts: 4, LastExit: "exit status 1"}
			c[2] = supervisor.Component{Name: "kube-apiserver", Restarts: 4, Waiting: "waiting for etcd to be ready"}
			return f
		}, false},
		{"api-down", func() status.Facts {
			f := down(ready())
			f.APIError = "dial tcp 10.20.0.2:6443: i/o timeout"
			return f
		}, false},
		{"starting", func() status.Facts {
			f := down(ready())
			f.APIError = "connection refused"
			f.Daemon.Ready, f.Daemon.Stage, f.Daemon.Components = false, "unpacking the payload", nil
			return f
		}, false},
		{"not-running", func() status.Facts {
			f := down(ready())
			f.Daemon, f.DaemonError, f.APIError = nil, "regiond is not running on /var/lib/regiond; start it with systemctl start regiond, or with regiond run -f region.yaml", "refused"
			return f
		}, false},
		{"server-retired", func() status.Facts {
			f := ready()
			f.Servers = append(f.Servers, region.Server{ObjectMeta: metav1.ObjectMeta{Name: "node3"},
				Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.30.0.13"}, Retired: true},
				Status: region.ServerStatus{Power: region.PowerOff, Phase: region.PhaseRetired, Conditions: []metav1.Condition{
					{Type: region.ConditionReady, Status: metav1.ConditionFalse, Reason: "Retired", Message: "the server is retired and off",
						LastTransitionTime: ago(time.Hour)}}}})
			return f
		}, true},
		{"openstack", func() status.Facts {
			f := ready()
			f.OpenStack = []region.OpenStackCluster{openstackCluster(region.Gates...)}
			return f
		}, true},
		{"openstack-waits", func() status.Facts {
			f := ready()
			f.OpenStack = []region.OpenStackCluster{openstackCluster(region.ConditionMariaDB)}
			f.OpenStack[0].Status.Services[0] = region.OpenStackService{Name: "keystone", Version: "2:27.0.0-3",
				Message: "0 of 1 pods ready: ImagePullBackOff"}
			f.OpenStack[0].Status.Nodes[0] = region.OpenStackNode{Name: "node1", Message: "it gets its configuration once all gates are passed"}
			return f
		}, false},
		{"openstack-new", func() status.Facts {
			f := ready()
			c := region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
			c.Spec.Release = region.ReleaseEpoxy
			f.OpenStack = []region.OpenStackCluster{c}
			return f
		}, false},
		{"node-not-ready", func() status.Facts {
			f := ready()
			f.Nodes[0].Status.Conditions[0].Status, f.Nodes[0].Status.Conditions[0].Message = corev1.ConditionFalse, "container runtime is down"
			f.Daemon.Problems = []string{`credentials "rack1": open /etc/regiond/bmc.yaml: no such file or directory`}
			return f
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := status.Build(c.facts())
			if r.Ready != c.ready {
				t.Errorf("got ready %t (%s), want %t", r.Ready, r.Message, c.ready)
			}
			var b bytes.Buffer
			if err := r.Table(&b, now); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".txt", b.Bytes())
		})
	}
}

// Backups that fail, or can't be removed, are a problem, and the region is ready all the same.
func TestFailedBackupIsShown(t *testing.T) {
	for reason, message := range map[string]string{
		region.ReasonBackupFailed:      "the last good one is of yesterday: /mnt/backups is full",
		region.ReasonBackupsNotPruned:  "the last one is of today; backups that are not kept any more can't be removed: access denied",
		region.ReasonBackupsBesideData: "the last one is of today; /mnt/backups is on the disk of what is backed up",
	} {
		f := ready()
		f.Regions = []region.Region{{Status: region.RegionStatus{Conditions: []metav1.Condition{{Type: region.ConditionBackedUp, Status: metav1.ConditionFalse,
			Reason: reason, Message: message}}}}}
		r := status.Build(f)
		var out bytes.Buffer
		if err := r.Table(&out, now); err != nil {
			t.Fatal(err)
		}
		if want := "backup: " + message; !r.Ready || !strings.Contains(out.String(), want) {
			t.Errorf("%s: got ready %t and\n%s\nwant ready, and %q", reason, r.Ready, out.String(), want)
		}
	}
}

// A conflict of a server's BMC is shown even while the server is in service.
func TestBMCConflictIsShown(t *testing.T) {
	f := ready()
	f.Servers[0].Status.Conditions = append(f.Servers[0].Status.Conditions, metav1.Condition{Type: region.ConditionBMCAddress, Status: metav1.ConditionFalse,
		Reason: region.ReasonIdentityConflict, Message: "the BMC at 10.30.0.99:623 says that it is this server"})
	var out bytes.Buffer
	if err := status.Build(f).Table(&out, now); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "IdentityConflict: the BMC at 10.30.0.99:623") {
		t.Errorf("the table does not show the conflict:\n%s", out.String())
	}
}

func TestJSONIsStable(t *testing.T) {
	b, err := json.MarshalIndent(status.Build(ready()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "ready.json", append(b, '\n'))
	// Lists are never null, so that programs can walk them.
	b, err = json.Marshal(status.Build(status.Facts{DaemonError: "not running"}))
	if err != nil || strings.Contains(string(b), "null") {
		t.Errorf("got %s, error %v; want no null", b, err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s (go test -update writes it); got:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestClusterThatWasNotCheckedYet(t *testing.T) {
	f := ready()
	f.OpenStack = []region.OpenStackCluster{openstackCluster(region.Gates...)}
	f.Daemon.Started = now.Add(-time.Minute) // the conditions are seven minutes old
	r := status.Build(f)
	if o := r.OpenStack[0]; o.Ready || r.Ready || !strings.Contains(o.Message, "not checked yet") || o.Gates[0].Passed || o.Nodes[0].Ready {
		t.Errorf("got %+v, want nothing of it checked yet", o)
	}
	if f.OpenStack[0].Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the collected condition is now %s, want it unchanged", f.OpenStack[0].Status.Conditions[0].Status)
	}
}

// TestBlockedTunnelsAreTold: a host that is well and loses guests' large packets says so.
func TestBlockedTunnelsAreTold(t *testing.T) {
	f := ready()
	f.Hosts[0].Status.Conditions = append(f.Hosts[0].Status.Conditions, metav1.Condition{Type: region.ConditionTunnels, Status: metav1.ConditionFalse,
		Message: "packets of 1500 bytes don't get to 10.0.0.2"})
	hosts := status.Build(f).Hosts
	h := hosts[slices.IndexFunc(hosts, func(h status.Host) bool { return h.Name == f.Hosts[0].Name })]
	if want := "nothing is wrong; packets of 1500 bytes don't get to 10.0.0.2"; h.Message != want || h.Healthy != "True" {
		t.Errorf("got %s %q, want True %q", h.Healthy, h.Message, want)
	}
}
