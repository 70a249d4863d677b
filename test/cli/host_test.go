//go:build integration

package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// `config render` shows all that a host becomes by its profile: its network's files and its kernel
// arguments, beside the files of its services. A MAC address that only the inventory tells has a
// placeholder.
func TestRenderShowsWhatAHostBecomes(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	const mac = "                permanentMACAddress: 3c:ec:ef:12:34:56\n"
	const disk = "          wwn: naa.5002538e40a1b2c3\n"
	for _, part := range []string{mac, disk} {
		if strings.Count(string(text), part) != 1 {
			t.Fatalf("%s has %q %d times, want once", example, part, strings.Count(string(text), part))
		}
	}
	changed := strings.NewReplacer(mac, "                boot: true\n", disk, disk+"        kernelArguments: [iommu=pt, hugepages=128]\n").Replace(string(text))
	out, stderr, status := run(t, "config", "render", "-f", write(t, "region.yaml", changed), "--node", "r1-db-1", "-o", "json")
	if status != 0 {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	var files []struct {
		Name, Role, Node, Path, Mode, Content string
		Network                               bool
	}
	if err := json.Unmarshal([]byte(out), &files); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"kernel-arguments":                             {"iommu=pt\n", "hugepages=128\n"},
		"run/systemd/network/10-regiond-lan0.link":     {"PermanentMACAddress=<mac:lan0>\n", "Name=lan0\n"},
		"run/systemd/network/10-regiond-lan0.network":  {"Address=10.20.0.60/24\n", "Gateway=10.20.0.1\n"},
		"run/systemd/network/10-regiond-data0.link":    {"PermanentMACAddress=3c:ec:ef:12:34:57\n"},
		"run/systemd/network/10-regiond-data0.network": {"LinkLocalAddressing=no\n"},
		"etc/nova/nova.conf":                           {"[DEFAULT]\n"},
	}
	for _, f := range files {
		name, ofNode := strings.CutPrefix(f.Name, "nodes/r1-db-1/")
		if !ofNode {
			continue
		}
		for _, part := range want[name] {
			if !strings.Contains(f.Content, part) {
				t.Errorf("%s has no %q:\n%s", f.Name, part, f.Content)
			}
		}
		if f.Node != "r1-db-1" || f.Role != "compute" || strings.HasPrefix(name, "run/systemd/network/") && !f.Network {
			t.Errorf("%s: got network %t, node %s, role %s, want node r1-db-1, role compute, and network files marked", f.Name, f.Network, f.Node, f.Role)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is not shown", name)
	}

	_, stderr, status = run(t, "config", "render", "-f", example, "--node", "r1-db-2")
	if status == 0 || !strings.Contains(stderr, `--node r1-db-2: cluster general has no such host`) || !strings.Contains(stderr, `"r1-db-1"`) {
		t.Errorf("an unknown node: status %d, stderr %q", status, stderr)
	}
}
