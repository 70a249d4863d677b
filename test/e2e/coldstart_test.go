//go:build e2e

package e2e

import (
	"testing"
	"time"

	"regiond.dev/regiond/test/lab"
)

// TestColdStart: all hosts lose their power at once. Compute hosts have it back first, and start their
// services while nobody answers them. When the seed host is back, too, the region comes up without
// hands, and with Nova's resume_guests_state_on_host_boot so do the guests.
func TestColdStart(t *testing.T) {
	l := NewLab(t, *regiond, "c")
	l.Wait(l.Up("--config", l.Write(twoNodes)))
	l.rewrite("region.yaml", func(spec map[string]any) {
		cluster := spec["openstack"].(map[string]any)["clusters"].([]any)[0].(map[string]any)
		nova := cluster["values"].(map[string]any)["nova"].(map[string]any)
		nova["conf"] = map[string]any{"DEFAULT": map[string]any{"resume_guests_state_on_host_boot": true}}
	})
	if out, err := l.applyFile(lab.SeedRegionFile); err != nil {
		t.Fatalf("apply: %v: %s", err, out)
	}
	l.VM("create", "vm1", "vm2")
	assertGuests(l, "vm1", "vm2")

	for _, node := range []string{"n1", "n2"} {
		l.Run("lab", "power", "--lab", l.name, node, "off")
	}
	l.haltSeed()
	for _, node := range []string{"n1", "n2"} {
		l.Run("lab", "power", "--lab", l.name, node, "on")
	}
	for _, node := range []string{"n1", "n2"} {
		for _, service := range []string{"ovs-vswitchd", "nova-compute", "neutron-openvswitch-agent"} {
			l.Eventually(service+" runs on "+node+" while the seed host is off", 3*time.Minute, func() (bool, string) {
				out, err := l.command("lab", "exec", "--lab", l.name, "--node", node, "--", "pgrep", "--full", service).CombinedOutput()
				return err == nil, string(out)
			})
		}
	}

	started := time.Now()
	l.Wait(l.Up())
	l.AwaitOpenStack(8 * time.Minute)
	t.Logf("OpenStack is ready %s after the seed host's start", time.Since(started).Round(time.Second))
	for _, name := range []string{"vm1", "vm2"} {
		l.Eventually(name+" runs again", 5*time.Minute, func() (bool, string) { s := l.guest(name).Status; return s == "ACTIVE", s })
	}
	l.pingEachOther("vm1", "vm2")
	t.Logf("both guests ping each other %s after the seed host's start", time.Since(started).Round(time.Second))
}
