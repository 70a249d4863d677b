//go:build e2e

package e2e

import (
	"testing"
)

// oneOfEach is a server that regiond installs, and a host that is there in seconds: without KVM a
// second server doubles the time.
const oneOfEach = "spec: {openstack: {}, machines: [{name: node1}, {name: node2, kind: namespace}]}"

// TestOpenStack is the core path: two guests on different hosts ping each other, and one of the hosts
// is a server that regiond installed.
func TestOpenStack(t *testing.T) {
	l := NewLab(t, *regiond, "os")
	assertLab(l, l.Up("--config", l.Write(oneOfEach)))
}

// TestLab is what `make lab` does: regiond installs both servers.
func TestLab(t *testing.T) {
	l := NewLab(t, *regiond, "lab")
	assertLab(l, l.Up())
}

// assertLab waits for a lab with node1 and node2, and uses it as its users do.
func assertLab(l *Lab, u *Up) {
	t := l.T
	l.Wait(u)
	assertGates(t, u.Lines())
	for _, m := range l.Status().Machines {
		if !m.Ready {
			t.Errorf("%s: %s", m.Name, m.Message)
		}
	}
	t.Run("nothing was started too early", func(t *testing.T) { assertNoRestarts(l.on(t)) })
	t.Run("Debian's client", func(t *testing.T) { assertCloud(l.on(t), 2) })
	t.Run("guests", func(t *testing.T) {
		l := l.on(t)
		l.VM("create", "vm1", "vm2")
		assertGuests(l, "vm1", "vm2")
	})
	t.Run("a second lab up changes nothing", func(t *testing.T) {
		l := l.on(t)
		pid, before := l.PID("regiond run"), l.versions()
		node1, node2 := l.processes("node1"), l.processes("node2")
		l.Wait(l.Up())
		l.VM("create", "vm1", "vm2")
		if l.PID("regiond run") != pid {
			t.Error("regiond was started again")
		}
		if d := different(before, l.versions()); len(d) > 0 {
			t.Errorf("written: %v", d)
		}
		if d := append(different(node1, l.processes("node1")), different(node2, l.processes("node2"))...); len(d) > 0 {
			t.Errorf("started again: %v", d)
		}
		if n := len(l.Guests()); n != 2 {
			t.Errorf("%d guests", n)
		}
	})
}
