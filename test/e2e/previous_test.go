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

	"regiond.dev/regiond/images/guest"
	"regiond.dev/regiond/test/lab/cloud"
)

var previous = flag.String("previous", "", "the regiond binary of the commit that test/previous names")

// TestPrevious replaces the program under a running region of the version that landed last: the
// region is Ready again, guests still ping each other, and nothing was started again, or is to be
// another than it was, that nobody asked for. The same holds when the program is then started again.
// A node that loses its power comes back with what it had, and its guest is started again.
func TestPrevious(t *testing.T) {
	if *previous == "" {
		t.Fatal("-previous is not set; run: make e2e-previous")
	}
	l := NewLab(t, *previous, "p")
	l.Wait(l.Up("-f", l.Write(twoNodes)))
	l.VM("create", "vm1", "vm2")
	assertGuests(l, "vm1", "vm2")
	was := l.standing()

	l.haltSeed()
	l.regiond = *regiond
	l.Wait(l.Up())
	l.AwaitOpenStack(5 * time.Minute)
	l.pingEachOther("vm1", "vm2")
	l.stands(was, "after the upgrade")

	l.Kill("regiond run")
	l.ready(t, 2*time.Minute)
	l.AwaitOpenStack(5 * time.Minute)
	l.pingEachOther("vm1", "vm2")
	l.stands(was, "after another start of the new version")

	l.losePower("n1")
	l.pingEachOther("vm1", "vm2")
	if d := different(was.configurations, l.configurations()); len(d) > 0 {
		t.Errorf("after a node's power was lost: hosts with another configuration: got %v, want nothing", d)
	}
	// What stood before can still be changed by the new version.
	l.VM("create", "vm3")
	l.VM("delete", "vm3")
}

// standing is what must stay as it is while only the program is replaced or started again.
type standing struct {
	guests string
	// pinned is what the cluster is rendered from.
	pinned string
	// processes of nodes by the node's name.
	processes map[string]map[string]string
	// workloads and configurations are what pods and hosts are to be.
	workloads, configurations map[string]string
}

func (l *Lab) standing() standing {
	l.Helper()
	return standing{guests: fmt.Sprintf("%+v", l.Guests()), pinned: l.Kubectl("get", "openstackcluster", "lab", "-o", "jsonpath={.spec.pinned}"),
		processes: map[string]map[string]string{"n1": l.processes("n1"), "n2": l.processes("n2")},
		workloads: l.generations(), configurations: l.configurations()}
}

// stands: all is as it was.
func (l *Lab) stands(was standing, when string) {
	l.Helper()
	is := l.standing()
	if is.guests != was.guests {
		l.Errorf("%s: guests: got %s, want %s", when, is.guests, was.guests)
	}
	if is.pinned != was.pinned {
		l.Errorf("%s: the cluster is pinned to %s, want %s", when, is.pinned, was.pinned)
	}
	for node, want := range was.processes {
		if d := different(want, is.processes[node]); len(d) > 0 {
			l.Errorf("%s: %s: started again, or given another configuration: got %v, want nothing", when, node, d)
		}
	}
	if d := different(was.workloads, is.workloads); len(d) > 0 {
		l.Errorf("%s: workloads of the control plane with another pod template: got %v, want nothing", when, d)
	}
	if d := different(was.configurations, is.configurations); len(d) > 0 {
		l.Errorf("%s: hosts with another configuration: got %v, want nothing", when, d)
	}
}

// losePower cuts a node's power and gives it back, and starts its guests again when Nova has seen
// that they are off. It starts none by itself.
func (l *Lab) losePower(machine string) {
	l.Helper()
	before := l.processes(machine)
	l.Run("lab", "power", "--lab", l.name, machine, "off")
	l.Run("lab", "power", "--lab", l.name, machine, "on")
	l.Eventually("all services of "+machine+" were started again", 5*time.Minute, func() (bool, string) {
		now := map[string]string{}
		if c := l.Host(machine).Status.Configuration; c != nil {
			for _, p := range c.Processes {
				now[p.Service] = start(p)
			}
		}
		d := different(before, now)
		return len(now) == len(before) && len(d) == len(before), fmt.Sprintf("%d of %d: %v", len(d), len(before), d)
	})
	l.AwaitOpenStack(8 * time.Minute)
	host := l.Host(machine).Name
	for _, g := range l.Guests() {
		if g.Node != host {
			continue
		}
		l.Eventually(g.Name+" is off", 5*time.Minute, func() (bool, string) { s := l.guest(g.Name).Status; return s == "SHUTOFF", s })
		l.Seed("regiond", "openstack", "--", "server", "start", g.ID)
		l.Eventually(g.Name+" runs again", 5*time.Minute, func() (bool, string) { s := l.guest(g.Name).Status; return s == "ACTIVE", s })
	}
}

// guest by its name.
func (l *Lab) guest(name string) cloud.Guest {
	l.Helper()
	for _, g := range l.Guests() {
		if g.Name == name {
			return g
		}
	}
	l.Fatalf("no guest %s", name)
	return cloud.Guest{}
}

// pingEachOther waits until both guests say that the other has answered. What they said before
// proves nothing: their consoles have to say it once more.
func (l *Lab) pingEachOther(a, b string) {
	l.Helper()
	for from, to := range map[string]string{a: b, b: a} {
		l.saysOnceMore(from, to, l.guest(to).Address, func() ([]byte, error) {
			return l.command("lab", "vm", "console", "--lab", l.name, from).CombinedOutput()
		})
	}
}

// pingEachOtherWithoutSeed is pingEachOther of guests as they were, by the consoles on their hosts.
func (l *Lab) pingEachOtherWithoutSeed(a, b cloud.Guest) {
	l.Helper()
	for _, g := range [][2]cloud.Guest{{a, b}, {b, a}} {
		from, to := g[0], g[1]
		l.saysOnceMore(from.Name, to.Name, to.Address, func() ([]byte, error) {
			return l.command("lab", "exec", "--lab", l.name, "--node", from.Node, "--", "cat", "/var/lib/nova/instances/"+from.ID+"/console.log").CombinedOutput()
		})
	}
}

// saysOnceMore waits until a guest's console has another line that says that an address has answered.
func (l *Lab) saysOnceMore(from, to, address string, read func() ([]byte, error)) {
	l.Helper()
	answer, last := guest.LinePing+address, -1
	l.Eventually(from+" pings "+to+" once more", guestTimeout, func() (bool, string) {
		console, err := read()
		if err != nil {
			return false, fmt.Sprintf("%v: %s", err, console)
		}
		n := 0
		for line := range strings.Lines(string(console)) {
			if strings.TrimSpace(line) == answer {
				n++
			}
		}
		grown := last >= 0 && n > last // one that was restarted begins another console
		last = n
		return grown, fmt.Sprintf("%d times %q", n, answer)
	})
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
