package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab"
	"regiond.dev/regiond/test/lab/cloud"
)

// VM runs `lab vm` and returns its output.
func (l *Lab) VM(args ...string) string {
	l.Helper()
	return l.Run(append([]string{"lab", "vm", "--lab", l.name}, args...)...)
}

// Guests of the lab.
func (l *Lab) Guests() []cloud.Guest {
	l.Helper()
	return decode[[]cloud.Guest](l, l.VM("list", "-o", "json"))
}

// OpenStack runs Debian's client, which prints a list of objects.
func (l *Lab) OpenStack(args ...string) []map[string]any {
	l.Helper()
	return decode[[]map[string]any](l, l.Seed(append(append([]string{"regiond", "openstack", "--"}, args...), "-f", "json")...))
}

// Kubectl on the seed host.
func (l *Lab) Kubectl(args ...string) string {
	l.Helper()
	return l.Seed(append([]string{"regiond", "kubectl"}, args...)...)
}

func decode[T any](l *Lab, out string) (v T) {
	l.Helper()
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		l.Fatalf("%v: %s", err, out)
	}
	return v
}

// Host of a machine.
func (l *Lab) Host(machine string) region.Host {
	l.Helper()
	for _, m := range l.Status().Machines {
		if m.Name == machine {
			return decode[region.Host](l, l.Kubectl("get", "host", m.Server, "-o", "json"))
		}
	}
	l.Fatalf("no machine %s", machine)
	return region.Host{}
}

// AwaitOpenStack until it answers, all its gates are passed and all its nodes are up. It may have
// been Ready before what is waited for was noticed, so it is asked, too.
func (l *Lab) AwaitOpenStack(timeout time.Duration) {
	l.Helper()
	l.Eventually("OpenStack is Ready", timeout, func() (bool, string) {
		out, err := l.command("lab", "vm", "list", "--lab", l.name, "--timeout", "30s").CombinedOutput()
		s := l.Status()
		return err == nil && s.OpenStack == "Ready", fmt.Sprintf("%s; %v: %s", s.OpenStack, err, out)
	})
}

// versions that the API server gave last to all objects that `regiond apply` could write, by kind
// and name. The cluster's secrets are left out: ten minutes after its start regiond writes there
// which keys Keystone has.
func (l *Lab) versions() map[string]string {
	l.Helper()
	versions := map[string]string{}
	const columns = "custom-columns=K:.kind,N:.metadata.name,V:.metadata.resourceVersion"
	const kinds = "deployments,statefulsets,jobs,services,secrets,configmaps,networkpolicies"
	out := l.Kubectl("get", "--namespace", "openstack-lab", kinds, "--no-headers", "-o", columns) +
		l.Kubectl("get", "--namespace", "regiond-hosts", "secrets", "--no-headers", "-o", columns) +
		l.Kubectl("get", "regions", "--no-headers", "-o", columns)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[1] != openstack.SecretName {
			versions[f[0]+"/"+f[1]] = f[2]
		}
	}
	if len(versions) < 30 {
		l.Fatalf("only %d objects: %v", len(versions), versions)
	}
	return versions
}

// processes of a machine's services, by service: when each was started.
func (l *Lab) processes(machine string) map[string]string {
	l.Helper()
	started := map[string]string{}
	h := l.Host(machine)
	if h.Status.Configuration != nil {
		for _, p := range h.Status.Configuration.Processes {
			started[p.Service] = start(p)
		}
	}
	if len(started) < 5 {
		l.Fatalf("%s runs only %v", machine, started)
	}
	return started
}

// start of a process: another one, or one with another configuration, is told apart.
func start(p region.HostProcess) string {
	return fmt.Sprint(p.PID, " ", p.Started, " ", p.ConfigDigest, " ", p.State)
}

// different are the keys whose values are not the same in both, or that only one has.
func different(a, b map[string]string) (keys []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for k := range all {
		if a[k] != b[k] {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// assertGates: each gate was shown once, in order, and then that OpenStack is Ready.
func assertGates(t *testing.T, lines []string) {
	t.Helper()
	at := -1
	var wants []string
	for _, gate := range region.Gates {
		wants = append(wants, lab.GateLine(gate))
	}
	for _, want := range append(wants, lab.ClusterReadyLine) {
		var found []int
		for i, line := range lines {
			if strings.Contains(line, want) {
				found = append(found, i)
			}
		}
		if len(found) != 1 || found[0] <= at {
			t.Fatalf("%q: in lines %v of\n%s", want, found, strings.Join(lines, "\n"))
		}
		at = found[0]
	}
}

// assertNoRestarts: each container of the control plane still is the first of its pod, so each was
// started when what it needs was there.
func assertNoRestarts(l *Lab) {
	l.Helper()
	pods := decode[corev1.PodList](l, l.Kubectl("get", "pods", "--namespace", "openstack-lab", "-o", "json"))
	containers := 0
	for _, p := range pods.Items {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if containers++; c.RestartCount == 0 {
				continue
			}
			l.Errorf("pod %s: container %s was restarted %d times, want none; it ended as %+v\n%s", p.Name, c.Name, c.RestartCount,
				c.LastTerminationState.Terminated, l.Kubectl("logs", "--namespace", "openstack-lab", p.Name, "--container", c.Name, "--previous", "--tail=20"))
		}
	}
	if containers < 20 {
		l.Errorf("only %d containers", containers)
	}
}

// assertCloud: what Debian's own client says of services, hypervisors and agents.
func assertCloud(l *Lab, nodes int) {
	l.Helper()
	up := map[string]int{}
	for _, s := range l.OpenStack("compute", "service", "list") {
		if s["State"] != "up" || s["Status"] != "enabled" {
			l.Errorf("compute service %v", s)
		}
		up[fmt.Sprint(s["Binary"])]++
	}
	if up["nova-compute"] != nodes || up["nova-conductor"] != 1 || up["nova-scheduler"] != 1 {
		l.Errorf("compute services %v, want %d nova-compute and one of each other", up, nodes)
	}
	hypervisors := l.OpenStack("hypervisor", "list")
	for _, h := range hypervisors {
		if h["State"] != "up" {
			l.Errorf("hypervisor %v", h)
		}
	}
	if len(hypervisors) != nodes {
		l.Errorf("%d hypervisors, want %d", len(hypervisors), nodes)
	}
	agents := map[string]int{}
	for _, a := range l.OpenStack("network", "agent", "list") {
		if a["Alive"] != true || a["State"] != true {
			l.Errorf("agent %v", a)
		}
		agents[fmt.Sprint(a["Binary"])]++
	}
	for _, want := range []string{"neutron-openvswitch-agent", "neutron-dhcp-agent", "neutron-metadata-agent"} {
		if agents[want] != nodes {
			l.Errorf("agents %v, want %d of %s", agents, nodes, want)
		}
	}
}

// guestTimeout of a guest from ACTIVE to its last line. Its emulated processor runs on an emulated one, and shares two cores
// with everything else of the region: up to four minutes were seen, and as many more when the machine has other work.
const guestTimeout = 12 * time.Minute

// assertGuests: two guests that run on different nodes, got their addresses by DHCP, were told by the metadata service who they
// are, and have pinged each other. All but the placement is what the guests say themselves.
func assertGuests(l *Lab, a, b string) {
	l.Helper()
	nodes := map[string]bool{}
	for _, g := range l.Guests() {
		if g.Name != a && g.Name != b {
			continue
		}
		nodes[g.Node] = true
		if g.Status != "ACTIVE" || g.Address == "" {
			l.Errorf("guest %+v", g)
		}
		wants := []string{"GUEST-DHCP-OK " + g.Address, "GUEST-METADATA-OK " + g.ID, "GUEST-NAME " + g.Name}
		l.Eventually(g.Name+"'s console", guestTimeout, func() (bool, string) {
			console, err := l.command("lab", "vm", "console", "--lab", l.name, g.Name).CombinedOutput()
			missing := slices.DeleteFunc(slices.Clone(wants), func(w string) bool { return strings.Contains(string(console), w) })
			return err == nil && len(missing) == 0, fmt.Sprintf("%q missing (%v) in %s", missing, err, console)
		})
	}
	if len(nodes) != 2 {
		l.Errorf("guests on %v: want two nodes", nodes)
	}
	l.VM("ping", a, b)
	l.VM("ping", b, a)
}
