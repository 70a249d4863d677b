package templates_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/nodeinit/unit"
)

// cluster returns source and values of a cluster with one physical network; values are the
// operator's, as JSON.
func cluster(t *testing.T, release region.OpenStackRelease, values string) (*configgen.Source, *configgen.Values) {
	t.Helper()
	source, err := configgen.Load(configgen.Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	v, warnings, err := source.Values(configgen.Cluster{Region: "north-1", Declaration: &region.OpenStackDeclaration{
		Name: "a", Release: release, Address: "192.0.2.1", Values: &runtime.RawExtension{Raw: []byte(values)},
		PhysicalNetworks: []region.PhysicalNetwork{{Name: "physnet1", Interface: "data0", VLANs: "100-199"}, {Name: "flat1", Interface: "data1"}},
	}})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return source, v
}

func node(t *testing.T, release region.OpenStackRelease, values string) configuration.Configuration {
	t.Helper()
	source, v := cluster(t, release, values)
	c, warnings, err := source.Node(v, configgen.Node{Name: "n1", Address: "192.0.2.11"})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return c
}

func content(t *testing.T, c configuration.Configuration, file string) string {
	t.Helper()
	i := slices.IndexFunc(c.Files, func(f configuration.File) bool { return f.Path == file })
	if i < 0 {
		t.Fatalf("no file %s", file)
	}
	return c.Files[i].Content
}

// Every rendered option exists in the release, or rendering fails.
func TestAllRolesOfAllReleasesRender(t *testing.T) {
	for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		for _, values := range []string{`{}`, `{"neutron":{"vxlan":{"enabled":true}},"openvswitch":{"datapath_type":"netdev"},
			"nova":{"cpu_mode":"custom","cpu_models":["qemu64"]},"libvirt":{"namespaces":false,"cgroups":false,"security_driver":"none"}}`} {
			source, v := cluster(t, release, values)
			for _, role := range source.Roles() {
				if role == configgen.RoleCompute {
					continue
				}
				if _, warnings, err := source.Render(v, role); err != nil || len(warnings) > 0 {
					t.Errorf("%s %s: %v %v", release, role, err, warnings)
				}
			}
			node(t, release, values)
		}
	}
}

// A service restarts when its unit or any file that its command names changes, and not for other
// files.
func TestServicesReadTheirFiles(t *testing.T) {
	c := node(t, region.ReleaseEpoxy, `{}`)
	for _, s := range c.Services {
		own := "/etc/systemd/system/" + s.Name
		text := content(t, c, own)
		if !slices.Contains(s.Files, own) {
			t.Errorf("%s is not restarted when its unit changes", s.Name)
		}
		for _, f := range regexp.MustCompile(`/etc/[a-z0-9/_.-]+`).FindAllString(text, -1) {
			if !slices.Contains(s.Files, f) {
				t.Errorf("%s names %s, but is not restarted when it changes", s.Name, f)
			}
		}
		// The lab's hosts have regiond's own service manager, which must understand every unit.
		u, err := unit.Parse(s.Name, unit.Source{Name: own, Content: text})
		if err != nil {
			t.Error(err)
			continue
		}
		if len(u.Unknown) > 0 {
			t.Errorf("%s has settings without effect: %v", s.Name, u.Unknown)
		}
		if s.Oneshot != (u.Type == unit.TypeOneshot) {
			t.Errorf("%s: services.yaml and unit disagree about oneshot", s.Name)
		}
	}
	for _, f := range c.Files {
		if strings.HasPrefix(f.Path, "/etc/systemd/system/") && !slices.ContainsFunc(c.Services, func(s configuration.Service) bool {
			return s.Name == path.Base(f.Path)
		}) {
			t.Errorf("%s is the unit of no service", f.Path)
		}
	}
}

// Hosts get no password of a database, and none of services other than nova and neutron.
func TestHostsGetNoForeignPasswords(t *testing.T) {
	for _, f := range node(t, region.ReleaseEpoxy, `{}`).Files {
		for _, m := range regexp.MustCompile(`<secret:([a-z_.]+)>`).FindAllStringSubmatch(f.Content, -1) {
			switch m[1] {
			case "node.keystone_password", "node.rabbitmq_password", "nova.metadata_secret":
			default:
				t.Errorf("%s has %s", f.Path, m[1])
			}
			if f.Mode != "0640" {
				t.Errorf("%s has a secret and mode %s", f.Path, f.Mode)
			}
		}
	}
}

// Any change of the file of bridges restarts Open vSwitch on every host, which waits until the
// hosts have no guests.
func TestNetworks(t *testing.T) {
	source, v := cluster(t, region.ReleaseEpoxy, `{}`)
	files, _, err := source.Render(v, "neutron")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f configgen.File) bool { return strings.HasSuffix(f.Path, "ml2_conf.ini") })
	for file, want := range map[string]string{
		files[i].Content: "network_vlan_ranges = physnet1:100:199,flat1,",
		content(t, node(t, region.ReleaseEpoxy, `{}`), "/etc/neutron/plugins/ml2/openvswitch_agent.ini"): "bridge_mappings = physnet1:br-physnet1,flat1:br-flat1,",
		content(t, node(t, region.ReleaseEpoxy, `{}`), "/etc/regiond/openvswitch/bridges"):               "uplink br-flat1 data1 flat1\n",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q in\n%s", want, file)
		}
	}
}

// Nova 31 silently ignores the option for the channels of a migration.
func TestParallelConnections(t *testing.T) {
	const line = "live_migration_parallel_connections"
	if c := content(t, node(t, region.ReleaseGazpacho, `{}`), "/etc/nova/nova.conf"); !strings.Contains(c, line) {
		t.Errorf("gazpacho: got no %s", line)
	}
	source, v := cluster(t, region.ReleaseEpoxy, `{"nova":{"live_migration":{"parallel_connections":2}}}`)
	if _, _, err := source.Node(v, configgen.Node{Name: "n1", Address: "192.0.2.11"}); err == nil || !strings.Contains(err.Error(), line) {
		t.Errorf("epoxy: got %s accepted (%v), want it refused", line, err)
	}
}
