//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/status"
	"regiond.dev/regiond/test/lab"
)

const twoNodes = "spec: {openstack: {}, machines: [{name: n1, kind: namespace}, {name: n2, kind: namespace}]}"

// TestOpenStackFaults breaks OpenStack while it comes up, and then while it runs, on nodes that are namespaces.
func TestOpenStackFaults(t *testing.T) {
	l := NewLab(t, *regiond, "f")
	t.Run("killed on the way up", func(t *testing.T) { killedOnTheWayUp(l.on(t)) })
	if t.Failed() {
		return
	}
	t.Run("Debian's client", func(t *testing.T) { assertCloud(l.on(t), 2) })
	t.Run("guests", func(t *testing.T) {
		l := l.on(t)
		l.VM("create", "vm1", "vm2")
		assertGuests(l, "vm1", "vm2")
	})
	t.Run("a host's credentials", func(t *testing.T) { hostCredentials(l.on(t), "n1", "n2", "vm1") })
	t.Run("an image that is uploaded slowly", func(t *testing.T) { slowUpload(l.on(t), "n1") })
	t.Run("an unchanged apply writes nothing", func(t *testing.T) { unchangedApply(l.on(t)) })
	t.Run("certificates", func(t *testing.T) { assertCertificates(l.on(t), "n1", "n2") })
	t.Run("metrics", func(t *testing.T) { assertMetrics(l.on(t)) })
	t.Run("a support bundle has no secret", func(t *testing.T) { assertBundle(l.on(t)) })
	// Before anything is applied that regiond's own file does not declare: this applies that file.
	t.Run("a changed network", func(t *testing.T) { changedNetwork(l.on(t)) })
	t.Run("a changed option", func(t *testing.T) { changedOption(l.on(t)) })
	t.Run("a patch that matches nothing", func(t *testing.T) { uselessPatch(l.on(t)) })
	t.Run("the broker restarts", func(t *testing.T) { brokerRestarts(l.on(t)) })
	t.Run("the database's pod is deleted", func(t *testing.T) { databaseDeleted(l.on(t)) })
	t.Run("the seed host is killed", func(t *testing.T) {
		l := l.on(t)
		l.Kill("regiond run")
		l.ready(t, 2*time.Minute)
		l.AwaitOpenStack(4 * time.Minute)
		l.VM("ping", "vm1", "vm2")
	})
	// Last: Nova does not start the guests of a node that lost its power.
	t.Run("power cut during an apply", func(t *testing.T) { powerCutDuringApply(l.on(t)) })
}

// killedOnTheWayUp: the database inside a schema job, and regiond with the whole control plane
// between a schema job and the rollout of what needs it. `lab up` does not notice.
func killedOnTheWayUp(l *Lab) {
	u := l.Up("--config", l.Write(twoNodes))
	job := func(name, field string) string {
		out, err := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "kubectl", "get", "jobs", "--namespace", "openstack-lab", "--no-headers",
			"-o", "custom-columns=N:.metadata.name,V:"+field).Output()
		if err != nil { // there is no API server yet, or no namespace
			return ""
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[0], name+"-") && f[1] != "<none>" && f[1] != "0" {
				return f[1]
			}
		}
		return ""
	}
	l.Eventually("keystone's schema job is complete", 6*time.Minute, func() (bool, string) {
		s := job("schema-keystone", ".status.succeeded")
		return s != "", s
	})
	l.Kill("regiond run")
	l.Log("killed: regiond, after keystone's schema job")
	l.Eventually("nova's schema job runs", 6*time.Minute, func() (bool, string) {
		s := job("schema-nova", ".status.active")
		return s != "" || job("schema-nova", ".status.succeeded") != "", s
	})
	l.Kubectl("delete", "pod", "--namespace", "openstack-lab", "mariadb-0", "--grace-period=0", "--force")
	l.Log("killed: the database, in nova's schema job")
	l.Wait(u)
	assertGates(l.T, u.Lines())
}

// apply a variant of the lab's region file.
func (l *Lab) apply(change func(cluster map[string]any), flags ...string) (out string, err error) {
	l.Helper()
	l.rewrite("changed.yaml", func(spec map[string]any) {
		change(spec["openstack"].(map[string]any)["clusters"].([]any)[0].(map[string]any))
	})
	return l.applyFile("/run/lab/changed.yaml", flags...)
}

// rewrite writes a file beside the lab's region file with its content changed.
func (l *Lab) rewrite(name string, change func(spec map[string]any)) {
	l.Helper()
	dir := filepath.Join(lab.DefaultRoot, l.name)
	b, err := os.ReadFile(filepath.Join(dir, "region.yaml"))
	if err != nil {
		l.Fatal(err)
	}
	var r map[string]any
	if err := yaml.Unmarshal(b, &r); err != nil {
		l.Fatal(err)
	}
	change(r["spec"].(map[string]any))
	if b, err = yaml.Marshal(r); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		l.Fatal(err)
	}
}

func (l *Lab) applyFile(file string, flags ...string) (out string, err error) {
	c := l.command(append([]string{"lab", "exec", "--lab", l.name, "--", "regiond", "apply", "-f", file, "--yes"}, flags...)...)
	text, err := c.CombinedOutput()
	return string(text), err
}

// changedNetwork: for a field that regiond reads at its start it restarts by itself, but not if its
// own file would take the change back. Nothing on hosts and in pods restarts.
func changedNetwork(l *Lab) {
	lease := func(d string) func(map[string]any) {
		return func(spec map[string]any) {
			provisioning := spec["networks"].(map[string]any)["provisioning"].(map[string]any)
			provisioning["dhcp"].(map[string]any)["leaseTime"] = d
		}
	}
	since := func() time.Time {
		return decode[status.Region](l, l.Seed("sh", "-c", "regiond status -o json || true")).ControlPlane.Since
	}
	pods := func() map[string]string {
		return l.column("openstack-lab", "pods", ".metadata.uid,RESTARTS:.status.containerStatuses[*].restartCount")
	}
	before, ran := since(), pods()
	hosts := map[string]map[string]string{"n1": l.processes("n1"), "n2": l.processes("n2")}

	l.rewrite("changed.yaml", lease("30m"))
	if out, err := l.applyFile("/run/lab/changed.yaml"); err == nil || !strings.Contains(out, "declares something else in spec.networks") {
		l.Errorf("apply of another file than regiond's: got %v, %s, want that its file declares something else", err, out)
	}
	if now := since(); !now.Equal(before) {
		l.Errorf("got a restart at %s, want none: its file would take the change back", now)
	}

	l.rewrite("region.yaml", lease("45m"))
	started := time.Now()
	out, err := l.applyFile(lab.SeedRegionFile)
	if err != nil || !strings.Contains(out, "regiond has restarted") {
		l.Fatalf("apply of regiond's file: got %v, %s, want a restart", err, out)
	}
	l.Logf("in effect after %s", time.Since(started).Round(100*time.Millisecond))
	if now := since(); !now.After(before) {
		l.Errorf("got regiond since %s, want it restarted", now)
	}
	l.AwaitOpenStack(4 * time.Minute)
	l.VM("ping", "vm1", "vm2")
	for node, was := range hosts {
		if d := different(was, l.processes(node)); len(d) > 0 {
			l.Errorf("%s: got %v started again, want nothing", node, d)
		}
	}
	if d := different(ran, pods()); len(d) > 0 {
		l.Errorf("got other pods, or restarted ones: %v, want the same", d)
	}
}

// set a value of nova below compute hosts' section, which no pod reads.
func setTimeout(seconds int) func(map[string]any) {
	return func(cluster map[string]any) {
		cluster["values"].(map[string]any)["nova"].(map[string]any)["vif_plugging_timeout"] = seconds
	}
}

func unchangedApply(l *Lab) {
	before, node1, node2 := l.versions(), l.processes("n1"), l.processes("n2")
	if out, err := l.apply(func(map[string]any) {}); err != nil {
		l.Fatalf("%v: %s", err, out)
	}
	if d := different(before, l.versions()); len(d) > 0 {
		l.Errorf("written: %v", d)
	}
	if d := append(different(node1, l.processes("n1")), different(node2, l.processes("n2"))...); len(d) > 0 {
		l.Errorf("started again: %v", d)
	}
}

func changedOption(l *Lab) {
	const reader = "nova-compute.service"
	objects, before := l.versions(), map[string]map[string]string{"n1": l.processes("n1"), "n2": l.processes("n2")}
	started := time.Now()
	if out, err := l.apply(setTimeout(299), "--wait=false"); err != nil {
		l.Fatalf("%v: %s", err, out)
	}
	for node, was := range before { // the second one gets it when the first has proved it
		l.Eventually("the option is live on "+node, 3*time.Minute, func() (bool, string) {
			now := l.processes(node)
			return now[reader] != was[reader] && strings.HasSuffix(now[reader], " active"), now[reader]
		})
	}
	l.Logf("live on both nodes after %s", time.Since(started).Round(100*time.Millisecond))
	l.AwaitOpenStack(4 * time.Minute)
	for node, was := range before {
		if d := different(was, l.processes(node)); !slices.Equal(d, []string{reader}) {
			l.Errorf("%s: started again: %v", node, d)
		}
		if out := l.Run("lab", "exec", "--lab", l.name, "--node", node, "--", "grep", "vif_plugging_timeout", "/etc/nova/nova.conf"); !strings.Contains(out, "299") {
			l.Errorf("%s: %s", node, out)
		}
	}
	for _, d := range different(objects, l.versions()) {
		if d != "Secret/n1" && d != "Secret/n2" && !strings.HasPrefix(d, "Region/") {
			l.Errorf("written, too: %s", d)
		}
	}
}

func uselessPatch(l *Lab) {
	patches := filepath.Join(lab.DefaultRoot, l.name, "patches")
	if err := os.Mkdir(patches, 0o755); err != nil {
		l.Fatal(err)
	}
	patch := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystoen}\nspec: {replicas: 2}\n"
	if err := os.WriteFile(filepath.Join(patches, "more.yaml"), []byte(patch), 0o600); err != nil {
		l.Fatal(err)
	}
	before := l.versions()
	out, err := l.apply(func(c map[string]any) { setTimeout(299)(c); c["patchesDir"] = "/run/lab/patches" })
	if err == nil || !strings.Contains(out, "more.yaml") || !strings.Contains(out, "keystoen") {
		l.Errorf("the patch was not refused by name: %v: %s", err, out)
	}
	if d := different(before, l.versions()); len(d) > 0 {
		l.Errorf("written: %v", d)
	}
}

func brokerRestarts(l *Lab) {
	l.Kubectl("delete", "pod", "--namespace", "openstack-lab", "rabbitmq-0")
	l.AwaitOpenStack(5 * time.Minute)
	// Whoever lost its connection has made a new one, or no guest would start.
	l.VM("create", "vm3")
	l.VM("delete", "vm3")
}

func databaseDeleted(l *Lab) {
	before := l.Guests()
	l.Kubectl("delete", "pod", "--namespace", "openstack-lab", "mariadb-0")
	l.AwaitOpenStack(5 * time.Minute)
	after := l.Guests()
	if len(after) != len(before) || after[0].ID != before[0].ID {
		l.Errorf("guests were %+v, are %+v", before, after)
	}
}

func powerCutDuringApply(l *Lab) {
	boot := l.Host("n1").Status.Configuration
	if out, err := l.apply(setTimeout(298), "--wait=false"); err != nil {
		l.Fatalf("%v: %s", err, out)
	}
	l.Run("lab", "power", "--lab", l.name, "n1", "off")
	l.Run("lab", "power", "--lab", l.name, "n1", "on")
	l.Eventually("n1 runs the new configuration", 3*time.Minute, func() (bool, string) {
		c := l.Host("n1").Status.Configuration
		return c != nil && c.Digest != boot.Digest, "the old one"
	})
	l.AwaitOpenStack(5 * time.Minute)
	if out := l.Run("lab", "exec", "--lab", l.name, "--node", "n1", "--", "grep", "vif_plugging_timeout", "/etc/nova/nova.conf"); !strings.Contains(out, "298") {
		l.Errorf("n1: %s", out)
	}
}
