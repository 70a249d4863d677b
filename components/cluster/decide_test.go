package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/region"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// workloads of a control plane, none of which is there.
func workloads() []cluster.Workload {
	var all []cluster.Workload
	for _, gate := range region.Gates {
		name := strings.ToLower(gate)
		if slices.Contains([]string{region.ConditionKeystone, region.ConditionPlacement, region.ConditionGlance, region.ConditionNova,
			region.ConditionNeutron}, gate) {
			all = append(all, cluster.Workload{Gate: gate, Name: "schema-" + name, Job: true})
		}
		all = append(all, cluster.Workload{Gate: gate, Name: name, Version: "1"})
	}
	return append(all, cluster.Workload{Gate: region.ConditionNova, Name: "nova-conductor"})
}

func facts() cluster.Facts {
	return cluster.Facts{Generation: 3, Release: "epoxy", Disk: cluster.Disk{Path: "/var/lib/regiond", Free: 50 << 30, Size: 100 << 30},
		Workloads: workloads(), Probes: map[string]cluster.Probe{}}
}

// settled are facts of a cluster in which all is well.
func settled() cluster.Facts {
	f := facts()
	for i := range f.Workloads {
		f.Workloads[i].Present = true
	}
	prove(&f, region.Gates...)
	return f
}

func prove(f *cluster.Facts, gates ...string) {
	for _, g := range gates {
		f.Probes[g] = cluster.Probe{Time: now.Add(-time.Second)}
		for i := range f.Workloads {
			if f.Workloads[i].Gate == g {
				f.Workloads[i].Present, f.Workloads[i].Waiting = true, ""
			}
		}
	}
}

func workload(f *cluster.Facts, name string) *cluster.Workload {
	return &f.Workloads[slices.IndexFunc(f.Workloads, func(w cluster.Workload) bool { return w.Name == name })]
}

func condition(t *testing.T, d cluster.Decision, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(d.Conditions, kind)
	if c == nil {
		t.Fatalf("no condition %s", kind)
	}
	return *c
}

func parts(d cluster.Decision) string {
	var all []string
	for _, p := range d.Apply {
		if p.Job != "" {
			all = append(all, p.Job)
			continue
		}
		all = append(all, "/"+p.Gate)
	}
	return strings.Join(all, " ")
}

// TestOrder goes through the start of a control plane.
func TestOrder(t *testing.T) {
	f := facts()
	step := func(name, apply, probe string) {
		t.Helper()
		d := cluster.Decide(f, now)
		if got := parts(d); got != apply {
			t.Errorf("%s: applies %q, want %q", name, got, apply)
		}
		if got := strings.Join(d.Probe, " "); got != probe {
			t.Errorf("%s: probes %q, want %q", name, got, probe)
		}
		if d.Prune {
			t.Errorf("%s: prunes before all is rolled out", name)
		}
	}
	step("nothing is there", "/ /MariaDB /RabbitMQ /Memcached", "")
	for _, n := range []string{"mariadb", "rabbitmq", "memcached"} {
		workload(&f, n).Present, workload(&f, n).Waiting = true, "0 of 1 pods ready"
	}
	step("pods start", "/ /MariaDB /RabbitMQ /Memcached", "")
	workload(&f, "mariadb").Waiting = ""
	step("MariaDB is ready", "/ /MariaDB /RabbitMQ /Memcached", "MariaDB")
	prove(&f, region.ConditionMariaDB)
	step("MariaDB is proved: two jobs", "/ schema-keystone schema-nova /MariaDB /RabbitMQ /Memcached", "")
	for _, n := range []string{"schema-keystone", "schema-nova"} {
		workload(&f, n).Present, workload(&f, n).Waiting = true, "it runs"
	}
	step("two jobs run", "/ /MariaDB /RabbitMQ /Memcached", "")
	workload(&f, "schema-keystone").Waiting = ""
	step("Keystone has its schema", "/ schema-placement /MariaDB /RabbitMQ /Memcached /Keystone", "")
	prove(&f, region.ConditionRabbitMQ, region.ConditionMemcached)
	for _, n := range []string{"schema-nova", "schema-neutron", "schema-placement", "schema-glance"} {
		workload(&f, n).Present, workload(&f, n).Waiting = true, ""
	}
	workload(&f, "keystone").Present = true
	step("all schemas are there, Keystone is not proved", "/ /MariaDB /RabbitMQ /Memcached /Keystone", "Keystone")
	prove(&f, region.ConditionKeystone)
	step("Keystone is proved: nova-conductor would exit without Placement", "/ /MariaDB /RabbitMQ /Memcached /Keystone /Placement /Glance /Neutron", "")
	for _, n := range []string{"placement", "glance", "neutron"} {
		workload(&f, n).Present = true
	}
	step("Placement is there, and not proved", "/ /MariaDB /RabbitMQ /Memcached /Keystone /Placement /Glance /Neutron", "Placement Glance Neutron")
	prove(&f, region.ConditionPlacement)
	workload(&f, "nova").Present = true
	step("nova-conductor is missing", "/ /MariaDB /RabbitMQ /Memcached /Keystone /Placement /Glance /Nova /Neutron", "Glance Neutron")
	prove(&f, region.Gates...)
	d := cluster.Decide(f, now)
	if !d.Prune || len(d.Probe) > 0 || condition(t, d, region.ConditionReady).Status != metav1.ConditionTrue {
		t.Errorf("all is proved: prune %v, probe %v, %+v", d.Prune, d.Probe, condition(t, d, region.ConditionReady))
	}
}

func TestConditions(t *testing.T) {
	since := now.Add(-2 * time.Minute)
	for _, c := range []struct {
		name   string
		facts  func(f *cluster.Facts)
		kind   string
		status metav1.ConditionStatus
		reason string
		parts  []string // of the message
	}{
		{"all is well", func(f *cluster.Facts) {}, region.ConditionReady, "True", "Ready", nil},
		{"a proof", func(f *cluster.Facts) {}, region.ConditionGlance, "True", "Proved", []string{"byte for byte"}},
		{"gates are passed in order", func(f *cluster.Facts) {
			f.Probes[region.ConditionMariaDB] = cluster.Probe{Time: now, Err: "mariadb 10.43.0.5:3306: access denied"}
		}, region.ConditionNeutron, "False", "EarlierGate", []string{"the gate MariaDB"}},
		{"the first gate is told", func(f *cluster.Facts) {
			f.Probes[region.ConditionMariaDB] = cluster.Probe{Time: now, Err: "mariadb 10.43.0.5:3306: access denied"}
		}, region.ConditionReady, "False", "NotReady", []string{"MariaDB: waiting for", "access denied"}},
		{"since", func(f *cluster.Facts) {
			f.Probes[region.ConditionNova] = cluster.Probe{Time: now, Err: "no nova-conductor is up"}
			f.Status.Conditions = []metav1.Condition{{Type: region.ConditionNova, Status: "False", Reason: "ProbeFailed",
				LastTransitionTime: metav1.NewTime(since)}}
		}, region.ConditionNova, "False", "ProbeFailed", []string{"since 2026-12-01T11:58:00Z", "no nova-conductor is up"}},
		{"wrong image digest", func(f *cluster.Facts) {
			*workload(f, "glance") = cluster.Workload{Gate: region.ConditionGlance, Name: "glance", Present: true,
				Waiting: "glance: 0 of 1 pods ready: container glance: ErrImagePull: registry.regiond.dev/openstack/epoxy/glance@sha256:00: not found"}
		}, region.ConditionGlance, "False", "Starting", []string{"glance@sha256:00: not found"}},
		{"database killed inside a migration", func(f *cluster.Facts) {
			*workload(f, "schema-nova") = cluster.Workload{Gate: region.ConditionNova, Name: "schema-nova", Job: true, Present: true,
				Waiting: "it runs, 3 attempts have failed"}
		}, region.ConditionNova, "False", "Starting", []string{"schema-nova", "3 attempts have failed"}},
		{"job given up", func(f *cluster.Facts) {
			*workload(f, "schema-nova") = cluster.Workload{Gate: region.ConditionNova, Name: "schema-nova", Job: true, Present: true,
				Waiting: "BackoffLimitExceeded", Failed: now.Add(-10 * time.Second)}
		}, region.ConditionNova, "False", "SchemaJobFailed", []string{"BackoffLimitExceeded", "2026-12-01T12:00:50Z"}},
		{"disk full", func(f *cluster.Facts) { f.Disk.Free = 1 << 30 },
			region.ConditionConfigured, "False", "DiskFull", []string{"/var/lib/regiond", "1.0 GiB of 100.0 GiB", "needs 2.0 GiB", "continues by itself"}},
		{"disk full is told first", func(f *cluster.Facts) {
			f.Disk.Free = 1 << 30
			f.Probes[region.ConditionMariaDB] = cluster.Probe{Time: now, Err: "no space left"}
		}, region.ConditionReady, "False", "NotReady", []string{"Configured: waiting for free space"}},
		{"small disk", func(f *cluster.Facts) { f.Disk = cluster.Disk{Free: 1 << 30, Size: 10 << 30} }, region.ConditionConfigured, "True",
			"Applied", nil},
		{"unknown release", func(f *cluster.Facts) {
			f.Trouble = &cluster.Trouble{Reason: "ConfigurationRefused", Message: "release zed: there is none; epoxy and gazpacho are known"}
		}, region.ConditionConfigured, "False", "ConfigurationRefused", []string{"release zed"}},
		{"images missing", func(f *cluster.Facts) {
			f.Trouble, f.Workloads = &cluster.Trouble{Reason: "NotConfigurable",
				Message: "no images of release epoxy; build them with: regiond image build"}, nil
		}, region.ConditionReady, "False", "NotReady", []string{"regiond image build"}},
		{"images missing, nothing is there", func(f *cluster.Facts) {
			f.Trouble, f.Workloads = &cluster.Trouble{Reason: "NotConfigurable", Message: "no images"}, nil
		}, region.ConditionMariaDB, "False", "Starting", []string{"see the condition Configured"}},
		{"two services of one type", func(f *cluster.Facts) {
			f.Probes[region.ConditionKeystone] = cluster.Probe{Time: now, Err: "keystone has 2 of service of type compute: a, b", Terminal: true}
		}, region.ConditionKeystone, "False", "ProbeFailed", []string{"2 of service"}},
		{"no nodes", func(f *cluster.Facts) {}, region.ConditionNodes, "True", "NoNodes", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := settled()
			c.facts(&f)
			got := condition(t, cluster.Decide(f, now), c.kind)
			if got.Status != c.status || got.Reason != c.reason || got.ObservedGeneration != 3 {
				t.Errorf("%+v", got)
			}
			for _, p := range c.parts {
				if !strings.Contains(got.Message, p) {
					t.Errorf("message %q lacks %q", got.Message, p)
				}
			}
		})
	}
}

func TestDiskFullStopsAndContinues(t *testing.T) {
	f := facts()
	f.Disk.Free = 1 << 30
	f.Nodes = []cluster.NodeFacts{{Name: "node1", Desired: "a"}}
	d := cluster.Decide(f, now)
	if len(d.Apply) > 0 || d.After > 10*time.Second {
		t.Errorf("applies %v, looks again after %s", d.Apply, d.After)
	}
	f.Disk.Free = 3 << 30
	if d := cluster.Decide(f, now); len(d.Apply) == 0 {
		t.Error("does not continue after space was made")
	}
}

func TestTroubleKeepsWhatRuns(t *testing.T) {
	f := settled()
	f.Trouble = &cluster.Trouble{Reason: "ConfigurationRefused", Message: "patch x.yaml matches nothing"}
	f.Nodes = []cluster.NodeFacts{{Name: "node1", Stored: "a", StoredRelease: "epoxy"}}
	d := cluster.Decide(f, now)
	if len(d.Apply) > 0 || d.Prune || len(d.Configure) > 0 {
		t.Errorf("acts on a desired state that isn't known: %+v", d)
	}
	if c := condition(t, d, region.ConditionNeutron); c.Status != metav1.ConditionTrue {
		t.Errorf("a gate that is passed is said not to be: %+v", c)
	}
}

func TestProbesAreRenewed(t *testing.T) {
	for _, c := range []struct {
		name  string
		probe cluster.Probe
		due   bool
	}{
		{"passed a moment ago", cluster.Probe{Time: now.Add(-time.Minute)}, false},
		{"passed a while ago", cluster.Probe{Time: now.Add(-4 * time.Minute)}, true},
		{"failed a moment ago", cluster.Probe{Time: now.Add(-time.Second), Err: "x"}, false},
		{"failed", cluster.Probe{Time: now.Add(-6 * time.Second), Err: "x"}, true},
		{"terminal", cluster.Probe{Time: now.Add(-6 * time.Second), Err: "x", Terminal: true}, false},
	} {
		f := settled()
		f.Probes[region.ConditionNeutron] = c.probe
		if d := cluster.Decide(f, now); slices.Contains(d.Probe, region.ConditionNeutron) != c.due {
			t.Errorf("%s: probes %v", c.name, d.Probe)
		}
	}
	// A pod that was started anew makes its proof old: the controller leaves it out of the facts.
	f := settled()
	delete(f.Probes, region.ConditionRabbitMQ)
	if d := cluster.Decide(f, now); !slices.Equal(d.Probe, []string{region.ConditionRabbitMQ}) {
		t.Errorf("broker restarted: probes %v", d.Probe)
	}
}

func TestFailedJobIsTriedAgain(t *testing.T) {
	f := settled()
	w := workload(&f, "schema-glance")
	w.Waiting, w.Failed = "BackoffLimitExceeded", now.Add(-30*time.Second)
	if d := cluster.Decide(f, now); strings.Contains(parts(d), "schema-glance") || d.After > 30*time.Second {
		t.Errorf("at once: %s, after %s", parts(d), d.After)
	}
	w.Failed = now.Add(-time.Minute)
	if d := cluster.Decide(f, now); !strings.Contains(parts(d), "schema-glance") || strings.Contains(parts(d), "/Glance") {
		t.Errorf("later: %s", parts(d))
	}
}

// node that is ready.
func node() cluster.NodeFacts {
	return cluster.NodeFacts{Name: "node1", Desired: "abc", Stored: "abc", StoredRelease: "epoxy", Applied: "abc", Configured: "True",
		Service: &cluster.ComputeService{ID: "s1", Up: true, Enabled: true}, Agents: []cluster.Agent{{Binary: "neutron-openvswitch-agent",
			Alive: true}}, Mapped: true}
}

func TestNodes(t *testing.T) {
	for _, c := range []struct {
		name      string
		node      func(n *cluster.NodeFacts, f *cluster.Facts)
		message   string
		configure bool
		mapping   bool
	}{
		{"ready", func(*cluster.NodeFacts, *cluster.Facts) {}, "", false, false},
		{"new", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			*n = cluster.NodeFacts{Name: "node1", Desired: "abc"}
		}, "about to change", true, false},
		{"new, but Nova isn't proved", func(n *cluster.NodeFacts, f *cluster.Facts) {
			*n = cluster.NodeFacts{Name: "node1", Desired: "abc"}
			f.Probes[region.ConditionNova] = cluster.Probe{Time: now, Err: "x"}
		}, "once all gates are passed", false, false},
		{"changed option", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Desired = "def"
			workload(f, "nova").Waiting = "0 of 1 pods ready"
		}, "about to change", true, false},
		{"new release comes after the control plane", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Desired, n.StoredRelease = "def", "dalmatian"
			workload(f, "nova").Waiting = "0 of 1 pods ready"
		}, "a new release reaches it once all gates are passed", false, false},
		{"changed option, Nova can't be asked", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Desired, f.NodesError = "def", "keystone issued no token"
		}, "can't query Nova", false, false},
		{"guests would be cut off", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Desired, n.Cuts, n.Guests = "def", true, 2
		}, "cuts off its 2 guests", false, false},
		{"guests are cut off by consent", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Desired, n.Cuts, n.Guests, f.Disrupt = "def", true, 2, true
		}, "about to change", true, false},
		{"it dies long after the change", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Given, n.WasUp, n.Current, n.Service.Up = now.Add(-500*time.Hour), true, true, false
		}, "its nova-compute does not report", false, false},
		{"agent is at it", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Applied, n.Configured, n.Message = "old", "False", "nova-compute.service does not start"
		}, "not yet abc: nova-compute.service does not start", false, false},
		{"not registered", func(n *cluster.NodeFacts, _ *cluster.Facts) { n.Service = nil }, "has not registered", false, false},
		{"down", func(n *cluster.NodeFacts, _ *cluster.Facts) { n.Service.Up = false }, "does not report", false, false},
		{"disabled", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Service.Enabled, n.Service.Reason = false, "maintenance"
		}, "disabled: maintenance", false, false},
		{"not mapped", func(n *cluster.NodeFacts, _ *cluster.Facts) { n.Mapped = false }, "being mapped", false, true},
		{"being mapped", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Mapped, f.Mapping = false, cluster.Workload{Present: true, Job: true, Waiting: "the job runs"}
		}, "the job runs", false, false},
		{"mapping failed a moment ago", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Mapped, f.Mapping = false, cluster.Workload{Present: true, Job: true, Waiting: "failed", Failed: now.Add(-time.Second)}
		}, "failed", false, false},
		{"unmapped, Nova can't be asked", func(n *cluster.NodeFacts, f *cluster.Facts) {
			n.Mapped, f.NodesError = false, "keystone issued no token"
		}, "no token", false, false},
		{"started again, Nova has not heard of it", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Started = map[string]time.Time{"nova-compute": now}
			n.Service.Reported = now.Add(-time.Second)
		}, "nova-compute was started at", false, false},
		{"reported since its start", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Started = map[string]time.Time{"nova-compute": now, "neutron-openvswitch-agent": now, "libvirtd": now.Add(time.Hour)}
			n.Service.Reported, n.Agents[0].Reported = now, now
		}, "", false, false},
		{"agent of Neutron started again", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Started = map[string]time.Time{"neutron-openvswitch-agent": now}
			n.Agents[0].Reported = now.Add(-time.Second)
		}, "neutron-openvswitch-agent was started at", false, false},
		{"agent of Neutron not registered", func(n *cluster.NodeFacts, _ *cluster.Facts) {
			n.Started = map[string]time.Time{"neutron-dhcp-agent": now}
		}, "neutron-dhcp-agent was started at", false, false},
		{"agent of Neutron silent", func(n *cluster.NodeFacts, _ *cluster.Facts) { n.Agents[0].Alive = false },
			"neutron-openvswitch-agent does not report", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := settled()
			n := node()
			c.node(&n, &f)
			f.Nodes = []cluster.NodeFacts{n}
			d := cluster.Decide(f, now)
			if got := d.Nodes[0]; got.Ready != (c.message == "") || !strings.Contains(got.Message, c.message) {
				t.Errorf("%+v", got)
			}
			if (len(d.Configure) > 0) != c.configure || d.Map != c.mapping {
				t.Errorf("configures %v, maps %v", d.Configure, d.Map)
			}
			if k := condition(t, d, region.ConditionNodes); (k.Status == metav1.ConditionTrue) != (c.message == "") {
				t.Errorf("%+v", k)
			}
		})
	}
}

// A change that has failed on a node is told of at the node, and stops the others.
func TestFailedNode(t *testing.T) {
	f, failed, next := settled(), node(), node()
	failed.Given, failed.WasUp, failed.Current, failed.Service = now.Add(-time.Hour), true, true, &cluster.ComputeService{}
	next.Name, next.Desired = "node2", "def"
	f.Nodes = []cluster.NodeFacts{failed, next}
	d := cluster.Decide(f, now)
	if !strings.Contains(d.Nodes[0].Message, "the change has failed on this host") || !strings.Contains(d.Nodes[1].Message, "failed on host node1") || len(d.Configure) > 0 {
		t.Errorf("nodes %+v, configures %v", d.Nodes, d.Configure)
	}
	if k := condition(t, d, region.ConditionNodes); k.Reason != region.ReasonRolloutStopped {
		t.Errorf("%+v", k)
	}
}
