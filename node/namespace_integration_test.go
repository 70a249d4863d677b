//go:build integration

package node

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"regiond.dev/regiond/region"
)

func TestNamespaceNode(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first []string
	}{
		{"init", []string{testProgram, "node-init"}},
		{"systemd", []string{"/lib/systemd/systemd", "--system", "--unit=test.target", "--show-status=0"}},
	} {
		t.Run(tt.name, func(t *testing.T) { testNode(t, tt.first) })
	}
}

func testNode(t *testing.T, first []string) {
	n := newNamespaceNode(t)
	n.program = first
	n.region.secret.set(n.conf(goodAddress, "one\n"))
	n.boot()
	applied := func(st region.HostStatus, reason string) bool { return reason == "Applied" }
	app := n.see("the first configuration", applied)
	if app.State != "active" || app.PID == 0 || app.ConfigDigest == "" || app.Kernel == "" {
		t.Errorf("%+v", app)
	}

	// A changed option is live, and restarts its reader only.
	began := time.Now()
	n.region.secret.set(n.conf(goodAddress, "two\n"))
	changed := n.see("the changed file", func(st region.HostStatus, reason string) bool {
		return reason == "Applied" && st.Configuration.Processes[1].ConfigDigest != app.ConfigDigest
	})
	t.Logf("a changed option is live after %s", time.Since(began).Round(time.Millisecond))
	if changed.PID == app.PID || n.read("etc/app.conf") != "two\n" || n.read("var/log/app.said") != "one\ntwo\n" {
		t.Errorf("%+v, log %q", changed, n.read("var/log/app.said"))
	}

	// The agent is killed: services go on.
	n.enter("sh", "-c", "kill -9 $(systemctl show --property=MainPID regiond-node.service | cut -d= -f2)")
	n.region.mu.Lock()
	n.region.host.Status = region.HostStatus{}
	n.region.mu.Unlock()
	if again := n.see("the agent again", applied); again.PID != changed.PID || again.ConfigDigest != changed.ConfigDigest {
		t.Errorf("after the agent was killed: %+v, before: %+v", again, changed)
	}

	// Someone changes a file, and kills a service.
	n.enter("sh", "-c", "echo three > /etc/app.conf")
	n.see("the repair", func(st region.HostStatus, reason string) bool {
		return reason == "Applied" && strings.Contains(st.Conditions[len(st.Conditions)-1].Message, ": /etc/app.conf was changed")
	})
	n.enter("systemctl", "stop", "app.service")
	n.see("the service again", func(st region.HostStatus, reason string) bool {
		p := st.Configuration.Processes[1]
		return reason == "Applied" && p.State == "active" && p.PID != changed.PID && p.ConfigDigest == changed.ConfigDigest
	})
	var shown struct {
		Host          string `json:"host"`
		Configuration struct {
			Processes []struct{ Service, State, Digest, WantedDigest string }
		} `json:"configuration"`
	}
	if err := json.Unmarshal([]byte(n.enter("/opt/regiond-node", "status", "-o", "json")), &shown); err != nil || shown.Host != "s1" || len(shown.Configuration.Processes) != 2 ||
		shown.Configuration.Processes[1].Digest != shown.Configuration.Processes[1].WantedDigest {
		t.Errorf("%+v %v", shown, err)
	}
	t.Log("\n" + n.enter("/opt/regiond-node", "status"))

	// A network configuration that takes the address away is rolled back by the node itself.
	began = time.Now()
	n.region.secret.set(n.conf("10.96.0.9/24", "four\n"))
	n.see("the rollback", func(_ region.HostStatus, reason string) bool { return reason == "RolledBack" })
	t.Logf("the node is back after %s", time.Since(began).Round(time.Second))
	if n.read("etc/network.conf") != goodAddress || n.read("etc/app.conf") != "two\n" {
		t.Errorf("files were not put back: %q %q", n.read("etc/network.conf"), n.read("etc/app.conf"))
	}

	// The power is cut while another one is tried.
	n.region.secret.set(n.conf("10.96.0.10/24", "five\n"))
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(command(t, "ip", "-n", nodeNamespace, "addr"), "10.96.0.10"); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the network did not change")
		}
	}
	n.kill()
	n.region.secret.set(n.conf(goodAddress, "six\n"))
	n.boot()
	n.see("the node after the power cut", func(st region.HostStatus, reason string) bool {
		return reason == "Applied" && n.read("etc/app.conf") == "six\n"
	})

	if first[0] != testProgram {
		return
	}
	// The node is stopped in order.
	pid := n.first()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := n.init.Wait(); err != nil {
		t.Errorf("init ended with %v: %s", err, n.read("console.log"))
	}
	n.init = nil
}
