package lab

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

func TestParseConfig(t *testing.T) {
	const head = "apiVersion: regiond.dev/v1alpha1\nkind: Lab\n"
	for _, tt := range []struct{ name, yaml, want string }{
		{"good", head + "spec: {machines: [{name: a}, {name: b, firmware: BIOS, cpus: 1, memory: 1Gi, disks: [10Gi, 20Gi]}]}", ""},
		{"unknown field", head + "spec: {machines: [{name: a, firmwre: BIOS}]}", `unknown field "firmwre"`},
		{"other kind", "apiVersion: v1\nkind: Pod\n", `want "regiond.dev/v1alpha1", "Lab"`},
		{"no machine", head + "spec: {machines: []}", "0 machines: want 1 to 64"},
		{"twice", head + "spec: {machines: [{name: a}, {name: a}]}", `spec.machines[1].name: "a" is there twice`},
		{"bad name", head + "spec: {machines: [{name: A_1}]}", `spec.machines[0].name: "A_1"`},
		{"bad disk", head + "spec: {machines: [{name: a, disks: [big]}]}", `spec.machines[0].disks[0]: "big" is not a size`},
		{"namespace", head + "spec: {openstack: {release: gazpacho}, machines: [{name: a, kind: namespace}, {name: b, kind: vm}]}", ""},
		{"unknown kind", head + "spec: {machines: [{name: a, kind: pod}]}", `spec.machines[0].kind: "pod": want vm or namespace`},
		{"namespace with a disk", head + "spec: {machines: [{name: a, kind: namespace, disks: [1Gi]}]}", "spec.machines[0]: a namespace has no"},
		{"unknown release", head + "spec: {openstack: {release: zed}, machines: [{name: a}]}", `spec.openstack.release: "zed": want epoxy or gazpacho`},
		{"bad firmware", head + "spec: {machines: [{name: a, firmware: uefi}]}", `"uefi": want UEFI or BIOS`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseConfig([]byte(tt.yaml), "lab.yaml")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "lab.yaml: ") {
				t.Errorf("%v: does not name the file", err)
			}
		})
	}
}

// Two machines of one lab, and machines of one name in two labs, must differ in all by which they are known.
func TestMachineIdentity(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"one", "two"} {
		l := Lab{Name: name, Root: "/labs", Spec: Spec{Machines: []MachineSpec{{Name: "a"}, {Name: "b"}}}}
		for i := range l.Spec.Machines {
			m, err := l.machine(i)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := l.machine(i); again.UUID != m.UUID {
				t.Errorf("machine %s has another UUID each time", m.Name)
			}
			for _, id := range []string{m.UUID, m.SerialNumber, m.MACAddress, m.Data.MACAddress, m.Dir, m.Disks[0].SerialNumber} {
				if other, ok := seen[id]; ok {
					t.Errorf("%s of lab %s has %s in common with %s", m.Name, name, id, other)
				}
				seen[id] = name + "/" + m.Name
			}
			if n := len(m.Disks[0].SerialNumber); n > 20 {
				t.Errorf("serial number of %d bytes: virtio-blk has 20", n)
			}
		}
	}
}

func TestParseHierarchies(t *testing.T) {
	for _, tt := range []struct {
		name, mountinfo string
		want            []hierarchy
	}{
		{"v1", `24 23 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw
25 24 0:22 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
26 24 0:23 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
27 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
28 24 0:25 / /mnt/other rw - cgroup cgroup rw,cpu
`, []hierarchy{
			{mountPoint: "/sys/fs/cgroup/cpu,cpuacct", options: "cpu,cpuacct"},
			{mountPoint: "/sys/fs/cgroup/systemd", options: "xattr,none,name=systemd"},
			{mountPoint: "/sys/fs/cgroup/unified", v2: true},
		}},
		{"v2", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", []hierarchy{{mountPoint: "/sys/fs/cgroup", v2: true}}},
		{"none", "30 23 0:26 / / rw - ext4 /dev/vda rw\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := parseHierarchies(tt.mountinfo)
			if len(got) != len(tt.want) {
				t.Fatalf("got %+v, want %+v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("got %+v, want %+v", got[i], tt.want[i])
				}
			}
		})
	}
}

// What the lab declares must be what an operator could declare.
func TestRegion(t *testing.T) {
	for name, spec := range map[string]Spec{
		"default": Default(),
		"servers": {Machines: []MachineSpec{{Name: "a"}, {Name: "b", Firmware: "BIOS"}}},
		"nodes":   {Machines: []MachineSpec{{Name: "a", Kind: KindNamespace}}, OpenStack: &OpenStackSpec{}},
		"both":    {Machines: []MachineSpec{{Name: "a", Kind: KindNamespace}, {Name: "b"}}, OpenStack: &OpenStackSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Lab{Name: "x", Root: "/labs", Spec: spec}
			b, err := yaml.Marshal(l.region("/images"))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := check.Load(b, "region.yaml")
			if err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			problems, err := openstack.Check(doc, nil)
			if err != nil || problems.Err() != nil {
				t.Errorf("%v\n%v", err, problems)
			}
			if got, want := len(doc.Region.Spec.OpenStack.Clusters) > 0, spec.OpenStack != nil; got != want {
				t.Errorf("OpenStack is declared: %v, want %v", got, want)
			}
			for i, p := range doc.Region.Spec.Hardware.Profiles {
				if n := p.Network.Interfaces; len(n) != 2 || n[1].Name != dataInterface || n[1].DHCP || n[1].Match.PermanentMACAddress != l.macAddress(i, dataInterface) {
					t.Errorf("%s: interfaces %+v", p.Name, n)
				}
			}
		})
	}
}

// Each gate is reported once and in order, whatever order they are seen in; a lab that is up already has no news.
func TestGates(t *testing.T) {
	var lines []string
	report := func(f string, a ...any) { lines = append(lines, fmt.Sprintf(f, a...)) }
	c := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName, Generation: 2}}
	w := clusterWaiter{}
	if w.next(nil, report) || w.next(c, report) || len(lines) != 0 {
		t.Fatalf("before anything: %q", lines)
	}
	c.Status.Conditions = []metav1.Condition{condition(region.ConditionRabbitMQ, metav1.ConditionTrue)}
	if w.next(c, report); len(lines) != 0 {
		t.Errorf("RabbitMQ before MariaDB: %q", lines)
	}
	for _, gate := range region.Gates {
		c.Status.Conditions = append(c.Status.Conditions, condition(gate, metav1.ConditionTrue))
		w.next(c, report)
		w.next(c, report)
	}
	for i, gate := range region.Gates {
		if i >= len(lines) || !strings.HasPrefix(lines[i], GateLine(gate)) {
			t.Fatalf("gate %d is %s; lines %q", i, gate, lines)
		}
	}
	c.Status.Nodes = []region.OpenStackNode{{Name: "n1", Ready: true}, {Name: "n2", Message: "agent is down"}}
	c.Status.Conditions = append(c.Status.Conditions, condition(region.ConditionReady, metav1.ConditionTrue))
	c.Status.ObservedGeneration = 1
	if w.next(c, report) || len(lines) != len(region.Gates)+1 {
		t.Errorf("Ready of an earlier declaration: %q", lines)
	}
	if err := clusterProblem(c); err == nil || !strings.Contains(err.Error(), "node n2: agent is down") {
		t.Errorf("problem: %v", err)
	}
	c.Status.ObservedGeneration = 2
	first, again := w.next(c, report), w.next(c, report)
	if !first || !again || len(lines) != len(region.Gates)+2 || clusterProblem(c) != nil {
		t.Errorf("Ready: %q, %v", lines, clusterProblem(c))
	}
	late := clusterWaiter{}
	if before := len(lines); !late.next(c, report) || len(lines) != before+1 {
		t.Errorf("a cluster that was up already: %q", lines[before:])
	}
	c.Status.Conditions = []metav1.Condition{{Type: region.ConditionMariaDB, Status: metav1.ConditionFalse, Reason: "NotReady", Message: "pod mariadb-0 is starting"}}
	quiet := clusterWaiter{}
	quiet.next(c, report)
	quiet.spoke = quiet.spoke.Add(-patience - 1)
	if quiet.next(c, report); !strings.HasSuffix(lines[len(lines)-1], "waits: MariaDB: NotReady: pod mariadb-0 is starting") {
		t.Errorf("after a while: %q", lines[len(lines)-1])
	}
}

// A namespace node is Ready by what its Host says.
func TestNodeStages(t *testing.T) {
	var lines []string
	node := corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	h := region.Host{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	w := newWaiter(Lab{Name: "x", Spec: Spec{Machines: []MachineSpec{{Name: "n1", Kind: KindNamespace}}}}, func(f string, a ...any) { lines = append(lines, fmt.Sprintf(f, a...)) })
	facts := func() Facts { return Facts{Nodes: []corev1.Node{node}, Hosts: []region.Host{h}} }
	if w.next(facts()) || len(lines) != 1 {
		t.Fatalf("before it joined: %q", lines)
	}
	h.Status.BootID = "b"
	h.Status.Conditions = []metav1.Condition{{Type: region.ConditionHealthy, Status: metav1.ConditionFalse, Reason: "ServiceFailed", Message: "x"}}
	if w.next(facts()) || len(lines) != 2 {
		t.Errorf("joined: %q", lines)
	}
	if err := w.stuck(facts(), nil); err == nil || !strings.Contains(err.Error(), "n1 is not Ready: ServiceFailed: x") {
		t.Errorf("stuck: %v", err)
	}
	h.Status.Conditions[0].Status = metav1.ConditionTrue
	first, again := w.next(facts()), w.next(facts())
	if !first || !again || len(lines) != 3 || lines[2] != "n1: Ready" {
		t.Errorf("Ready: %q", lines)
	}
}

func condition(t string, s metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: t, Status: s}
}

// Stages that nobody saw are reported all the same, each once and in order.
func TestStages(t *testing.T) {
	s := region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u"}}
	s.Spec.BMC.Address = "10.98.0.11"
	node := corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	var lines []string
	w := newWaiter(Lab{Name: "x", Root: t.TempDir(), Spec: Spec{Machines: []MachineSpec{{Name: "node1"}}}},
		func(f string, a ...any) { lines = append(lines, f) })
	if w.next(Facts{}) {
		t.Fatal("done without a control plane")
	}
	if w.next(Facts{Nodes: []corev1.Node{node}}) || len(lines) != 1 {
		t.Fatalf("control plane: %q", lines)
	}
	s.Status.Conditions = []metav1.Condition{condition(region.ConditionInspected, metav1.ConditionTrue)}
	for range 2 {
		if w.next(Facts{Nodes: []corev1.Node{node}, Servers: []region.Server{s}}) || len(lines) != 4 {
			t.Fatalf("inspected: %d lines %q", len(lines), lines)
		}
	}
	err := w.stuck(Facts{Servers: []region.Server{s}}, nil)
	if err == nil || !strings.Contains(err.Error(), "last seen: inspected") || !strings.Contains(err.Error(), "console.log") {
		t.Errorf("stuck: %v", err)
	}
	s.Status.Conditions = []metav1.Condition{condition(region.ConditionReady, metav1.ConditionTrue)}
	again := newWaiter(w.lab, w.report)
	if lines = nil; !again.next(Facts{Nodes: []corev1.Node{node}, Servers: []region.Server{s}}) || len(lines) != 2 {
		t.Errorf("a lab that was up already: %q", lines)
	}
	lines = make([]string, 4)
	if !w.next(Facts{Nodes: []corev1.Node{node}, Servers: []region.Server{s}}) || len(lines) != 8 {
		t.Errorf("ready: %d lines %q", len(lines), lines)
	}
}
