package openstack_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// TestPinnedClustersWithValues: clusters that run, with all that an operator can give, are rendered
// to the byte as by the regiond that rolled them out. The golden files were written by its code, and
// have a line for each object and file: those that differ say what would restart. Where this fails,
// the code that renders has changed what it makes of the same templates: keep what it made of these.
//
// A pin more, when templates or the code that renders have landed: the archive of the landed
// templates (Composer.Archive), and what the landed code makes of them. Golden files are never
// rewritten.
func TestPinnedClustersWithValues(t *testing.T) {
	for _, pin := range []struct {
		name string
		// open the templates. Clusters from before there were pins have those of commit e9d8cda.
		open func() (*openstack.Composer, error)
		// later changes the input to what was possible when these templates landed.
		later func(*openstack.Input)
	}{
		{"e9d8cda", openstack.BeforePins, func(*openstack.Input) {}},
		{"99e3a16", archived("99e3a16", "3c74441bc50a919073f57ac4eea49819f319f17c88243290b531d7b8eafb2247"), sinceHostUsers(t)},
		{"9ed8cf6", archived("9ed8cf6", "4b5f2ab5391bc5fe3d7e2eed42460e0cb69b09d33eb135689bee70b8e4dfda49"), sinceHostUsers(t)},
	} {
		c, err := pin.open()
		if err != nil {
			t.Fatal(err)
		}
		for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
			in := usedInput(t, release)
			pin.later(&in)
			s, err := c.Desired(in)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("testdata/pinned/%s-%s.txt", pin.name, release)
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			compareLines(t, name, sums(t, s), strings.Split(strings.TrimSpace(string(want)), "\n"))
		}
	}
}

// archived opens the templates of a commit, which have this digest.
func archived(commit, digest string) func() (*openstack.Composer, error) {
	return func() (*openstack.Composer, error) {
		archive, err := os.ReadFile("testdata/pinned/" + commit + ".zip")
		if err != nil {
			return nil, err
		}
		return openstack.Open(archive, digest)
	}
}

// sinceHostUsers is what became possible with commit 99e3a16: users of hosts, secrets of one's own,
// hosts of another release, and contributions of others.
func sinceHostUsers(t *testing.T) func(*openstack.Input) {
	return func(in *openstack.Input) {
		in.Cluster.Spec.KeystoneRegion = "r1"
		in.Cluster.Spec.Values = raw(strings.Replace(usedValues, `"Pa$w0rd %(x)s # no comment"`, `{"secret": "ldap-password"}`, 1))
		in.Secrets["compute"] = map[string]any{"host_key": strings.Repeat("Z", 64)}
		in.Secrets["own"] = map[string]any{"ldap-password": "p$my_ip $$host 'q\""}
		in.Hosts[2].Release = region.ReleaseGazpacho
		in.Hosts[0].Contributions = map[string][]byte{"vpn": contribution(t, "/etc/vpn.conf")}
	}
}

func compareLines(t *testing.T, name string, got, want []string) {
	t.Helper()
	if len(want) < 100 {
		t.Errorf("%s has %d objects and files, want at least 100", name, len(want))
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s: got %s, which was not rendered", name, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s: want %s, which is not rendered any more", name, line)
		}
	}
}

// sums of the objects of a cluster and of the files of its hosts.
func sums(t *testing.T, s *openstack.State) (lines []string) {
	t.Helper()
	sum := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.Sum256(b)
		return hex.EncodeToString(h[:16])
	}
	for _, o := range s.Objects {
		lines = append(lines, fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), sum(o)))
	}
	for name, node := range s.Nodes {
		_, digest, err := node.Encode()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("host %s: %s", name, digest))
		for _, f := range node.Files {
			lines = append(lines, fmt.Sprintf("host %s, file %s: %s", name, f.Path, sum(f)))
		}
	}
	slices.Sort(lines)
	return lines
}

func raw(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }

// usedValues have numbers, lists, and texts with characters that mean something in a file.
const usedValues = `{"mariadb": {"innodb_buffer_pool_size": "2G", "max_connections": 4096}, "rabbitmq": {"memory_high_watermark": "1GiB", "schedulers": 4},
	"keystone": {"region": "nl-ams-1", "token_expiration": 7200, "conf": {"ldap": {"url": "ldaps://ldap.example", "password": "Pa$w0rd %(x)s # no comment"},
		"security_compliance": {"password_regex": "^(?=.*\\d)(?=.*[a-zA-Z]).{12,}$"}}},
	"nova": {"debug": true, "cpu_allocation_ratio": 2.5, "ram_allocation_ratio": 1, "reserved_host_memory_mb": 8192, "virt_type": "qemu",
		"cpu_mode": "custom", "cpu_models": ["Haswell-noTSX", "EPYC"], "live_migration": {"post_copy": true, "bandwidth": 1000},
		"conf": {"DEFAULT": {"default_availability_zone": "az1", "max_concurrent_builds": 5, "my_block_storage_ip": "$my_ip",
				"resume_guests_state_on_host_boot": false},
			"filter_scheduler": {"enabled_filters": "ComputeFilter,ImagePropertiesFilter"}, "workarounds": {"disable_rootwrap": "  True"}, "quota": {"instances": -1}}},
	"neutron": {"global_physnet_mtu": 9000, "dnsmasq_dns_servers": ["192.0.2.53", "2001:db8::53"], "tenant_network_types": ["vxlan", "vlan"],
		"vxlan": {"enabled": true}, "conf": {"DEFAULT": {"dns_domain": "cloud.example."}, "quotas": {"quota_network": 1000}}},
	"openvswitch": {"other_config": ["dpdk-init=true"]}, "libvirt": {"max_files": 65536}}`

// usedInput is a cluster as operators have it: with values in every place, patches, secrets, and
// hosts that have registered.
func usedInput(t *testing.T, release region.OpenStackRelease) openstack.Input {
	t.Helper()
	in := programInput(release)
	in.Cluster.UID = "5e44e100-0000-4000-8000-000000000001"
	d := &in.Cluster.Spec.OpenStackDeclaration
	d.Profiles = []string{"compute", "gpu"}
	d.PhysicalNetworks = append(d.PhysicalNetworks, region.PhysicalNetwork{Name: "outside", Interface: "bond0"})
	d.Values = raw(usedValues)
	d.Overrides = raw(`{"nova": {"report_interval": 15}}`)
	d.Nodes = []region.OpenStackNodeValues{{Name: "node2", Values: raw(`{"nova": {"conf": {"DEFAULT": {"reserved_huge_pages": "node:0,size:2048,count:64"}}}}`),
		Overrides: raw(`{"nova": {"virt_type": "kvm", "cpu_mode": "host-passthrough", "cpu_models": []}}`)}}
	in.Cluster.Spec.Patches = []region.Patch{
		{File: "10-priority.yaml", Content: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystone}\nspec:\n  template:\n    spec:\n" +
			"      priorityClassName: high\n      containers:\n        - {name: keystone, resources: {limits: {memory: 2Gi}}}\n"},
		{File: "20-tolerate.yaml", Content: "target: {kind: StatefulSet, name: mariadb}\n" +
			"patch: |-\n  - {op: add, path: /spec/template/spec/tolerations, value: [{operator: Exists}]}\n"},
	}
	in.Hosts = []openstack.Host{
		{Name: "node1", UID: "h1", Address: "10.99.0.101", Registration: "9f2c1b1e-0000-4000-8000-000000000001"},
		{Name: "node2", UID: "h2", Address: "10.99.0.102", Registration: "9f2c1b1e-0000-4000-8000-000000000002"},
		{Name: "node3", UID: "h3", Address: "10.99.0.103"},
	}
	in.Secrets = usedSecrets()
	return in
}

// usedSecrets has each secret that commit e9d8cda declares, with a content of its own.
func usedSecrets() map[string]any {
	next := byte('A' - 1)
	secret := func() string { next++; return strings.Repeat(string(next), 32) }
	database := func() map[string]any { return map[string]any{"password": secret(), "schema_password": secret()} }
	password := func() map[string]any { return map[string]any{"password": secret()} }
	return map[string]any{
		"mariadb":  map[string]any{"admin_password": secret()},
		"rabbitmq": map[string]any{"gate_password": secret()},
		"keystone": map[string]any{"admin_password": secret(), "fernet_keys": map[string]any{"primary": secret(), "secondary": secret(), "staged": secret()},
			"credential_keys": map[string]any{"primary": secret(), "staged": secret()}, "database": database()},
		"placement": map[string]any{"database": database(), "keystone": password()},
		"glance":    map[string]any{"database": database(), "keystone": password()},
		"nova":      map[string]any{"database": database(), "keystone": password(), "rabbitmq": password(), "metadata_secret": secret()},
		"neutron":   map[string]any{"database": database(), "keystone": password(), "rabbitmq": password()},
	}
}
