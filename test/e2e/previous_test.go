//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"
)

var previous = flag.String("previous", "", "the regiond binary of the commit that test/previous names")

// TestPrevious replaces the program under a running region of the version that landed last: the
// region is Ready again, guests still ping each other, and nothing was started again that nobody
// asked for.
func TestPrevious(t *testing.T) {
	if *previous == "" {
		t.Fatal("-previous is not set; run: make e2e-previous")
	}
	l := NewLab(t, *previous, "p")
	l.Wait(l.Up("-f", l.Write(twoNodes)))
	l.VM("create", "vm1", "vm2")
	assertGuests(l, "vm1", "vm2")
	guests := l.Guests()
	nodes := map[string]map[string]string{"n1": l.processes("n1"), "n2": l.processes("n2")}
	workloads, configurations := l.generations(), l.configurations()

	l.haltSeed()
	l.regiond = *regiond
	l.Wait(l.Up())
	l.AwaitOpenStack(5 * time.Minute)

	l.VM("ping", "vm1", "vm2")
	l.VM("ping", "vm2", "vm1")
	if got := l.Guests(); fmt.Sprint(got) != fmt.Sprint(guests) {
		t.Errorf("guests: got %+v, want %+v", got, guests)
	}
	for node, want := range nodes {
		if d := different(want, l.processes(node)); len(d) > 0 {
			t.Errorf("%s: started again, or given another configuration: got %v, want nothing", node, d)
		}
	}
	if d := different(workloads, l.generations()); len(d) > 0 {
		t.Errorf("workloads of the control plane with another pod template: got %v, want nothing", d)
	}
	if d := different(configurations, l.configurations()); len(d) > 0 {
		t.Errorf("hosts with another configuration: got %v, want nothing", d)
	}
	// What stood before can still be changed by the new version.
	l.VM("create", "vm3")
	l.VM("delete", "vm3")
}

// haltSeed ends the seed host with all that runs on it, as a power cut does.
func (l *Lab) haltSeed() {
	l.Helper()
	pid := l.Status().Seed
	if pid == 0 {
		l.Fatal("the seed host does not run")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		l.Fatal(err)
	}
	l.Eventually("the seed host has ended", time.Minute, func() (bool, string) {
		pid := l.Status().Seed
		return pid == 0, fmt.Sprint("pid ", pid)
	})
	l.seed = 0
}

// generations of OpenStack's workloads by kind and name: one more for each change of what they are to be.
func (l *Lab) generations() map[string]string {
	l.Helper()
	return l.column("openstack-lab", "deployments,statefulsets", ".metadata.generation")
}

// configurations that hosts are given, by host.
func (l *Lab) configurations() map[string]string {
	l.Helper()
	all := l.column("regiond-hosts", "secrets", ".data")
	maps.DeleteFunc(all, func(name, _ string) bool { return name != "Secret/n1" && name != "Secret/n2" })
	return all
}

// column of objects, by kind and name.
func (l *Lab) column(namespace, kinds, field string) map[string]string {
	l.Helper()
	values := map[string]string{}
	out := l.Kubectl("get", "--namespace", namespace, kinds, "--no-headers", "-o", "custom-columns=K:.kind,N:.metadata.name,V:"+field)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 3 {
			values[f[0]+"/"+f[1]] = strings.Join(f[2:], " ")
		}
	}
	if len(values) < 2 {
		l.Fatalf("only %d objects of %s in %s: %v", len(values), kinds, namespace, values)
	}
	return values
}
