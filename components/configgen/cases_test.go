package configgen

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/region"
)

// carried renders all files of a cluster with regiond's own templates. values are the operator's,
// as JSON.
func carried(t *testing.T, values string) (files map[string]string, problems []*Problem) {
	t.Helper()
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	c := realCluster(t, s, region.ReleaseEpoxy)
	c.Field, c.Declaration.Values, c.Declaration.Nodes = "spec.openstack.clusters[0]", raw(values), nil
	files = map[string]string{}
	if problems := s.Check(c, []Node{node1}); problems != nil {
		return files, problems
	}
	_, err = s.Apply(c, []Node{node1}, func(o Output) error {
		files[o.Name] = string(o.Content)
		return nil
	})
	return files, Problems(err)
}

func mustHave(t *testing.T, files map[string]string, name string, lines ...string) {
	t.Helper()
	all := strings.Split(files[name], "\n")
	for _, line := range lines {
		if !slices.Contains(all, line) {
			t.Errorf("%s has no line %q:\n%s", name, line, files[name])
		}
	}
}

// A list gives one line for a list option, and one line per item for an option that may be
// repeated.
func TestListOptions(t *testing.T) {
	files, problems := carried(t, `{"nova": {"conf": {"filter_scheduler": {"enabled_filters": ["ComputeFilter", "ServerGroupAntiAffinityFilter"]},
		"api": {"vendordata_providers": ["StaticJSON", "DynamicJSON"]}, "pci": {"alias": ["{\"name\": \"a\"}", "{\"name\": \"b, c\"}"]},
		"libvirt": {"cpu_model_extra_flags": []}}}}`)
	if problems != nil {
		t.Fatal(problems)
	}
	mustHave(t, files, "nova/etc/nova/nova.conf", "enabled_filters = ComputeFilter,ServerGroupAntiAffinityFilter",
		"vendordata_providers = StaticJSON,DynamicJSON", `alias = {"name": "a"}`, `alias = {"name": "b, c"}`, "cpu_model_extra_flags = ")
	for values, want := range map[string]string{
		`{"nova": {"conf": {"DEFAULT": {"max_concurrent_builds": [1, 2]}}}}`:      "is a list; the option accepts one value: an integer of at least 0",
		`{"nova": {"conf": {"filter_scheduler": {"enabled_filters": ["a,b"]}}}}`:  `item 1, "a,b", has a comma, and oslo.config would split it there`,
		`{"nova": {"conf": {"filter_scheduler": {"enabled_filters": ["a\nb"]}}}}`: "has a line break",
	} {
		if _, problems := carried(t, values); len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %s", values, problems, want)
		}
	}
}

// An invalid value of an option is refused at its place, whether it is given below conf or as a
// value of the templates.
func TestOptionsOfWrongTypes(t *testing.T) {
	_, problems := carried(t, `{"nova": {"reserved_host_memory_mb": "4G", "report_interval": "soon", "debug": "maybe", "virt_type": "vmx",
		"cpu_allocation_ratio": "1e400", "conf": {"DEFAULT": {"max_concurrent_builds": "ten", "allow_resize_to_same_host": "maybe"},
		"libvirt": {"cpu_mode": "fast"}}}}`)
	for field, want := range map[string]string{
		"nova.reserved_host_memory_mb":                `is "4G", must be an integer of at least 0 (MiB for the host itself`,
		"nova.report_interval":                        `is "soon", must be an integer of at least 1 (seconds between reports`,
		"nova.debug":                                  `is "maybe", must be true or false`,
		"nova.virt_type":                              `is "vmx", must be one of "kvm", "qemu"`,
		"nova.cpu_allocation_ratio":                   `is "1e400", must be a number of at least 0`,
		"nova.conf.DEFAULT.max_concurrent_builds":     `[DEFAULT] max_concurrent_builds: "ten" is not an integer of at least 0, as nova of epoxy requires`,
		"nova.conf.DEFAULT.allow_resize_to_same_host": `"maybe" is not true or false`,
		"nova.conf.libvirt.cpu_mode":                  `"fast" is not one of`,
	} {
		if n := problemsOf(problems, field); len(n) != 1 || !strings.Contains(n[0].Message, want) {
			t.Errorf("%s: %v, want one: %s", field, n, want)
		}
	}
	if len(problems) != 8 {
		t.Errorf("%d problems:\n%v", len(problems), errors.Join(asErrors(problems)...))
	}
}

func problemsOf(all []*Problem, field string) []*Problem {
	return slices.DeleteFunc(slices.Clone(all), func(p *Problem) bool { return p.Field != "spec.openstack.clusters[0].values."+field })
}

func asErrors(problems []*Problem) (errs []error) {
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errs
}

// A dollar reaches the service as written, and a reference to an option at the beginning of a word
// refers to that option.
func TestDollarsInOptions(t *testing.T) {
	files, problems := carried(t, `{"keystone": {"conf": {"ldap": {"url": "ldaps://ldap.example", "password": "Pa$w0rd"}}},
		"nova": {"conf": {"DEFAULT": {"default_availability_zone": "az$debug", "metadata_listen": "$my_ip"}, "vnc": {"server_listen": "  $my_ip"}}}}`)
	if problems != nil {
		t.Fatal(problems)
	}
	mustHave(t, files, "keystone/etc/keystone/keystone.conf", "password = Pa$$w0rd")
	mustHave(t, files, "nova/etc/nova/nova.conf", "default_availability_zone = az$$debug", "metadata_listen = $my_ip", `server_listen = "  $my_ip"`)
}

// Names are written into files, too.
func TestNamesOfOptions(t *testing.T) {
	_, problems := carried(t, `{"nova": {"conf": {"x]\n[DEFAULT": {"debug": true}, "DEFAULT": {"debug = true\nuse_stderr": false}}}}`)
	if len(problems) != 2 || !strings.Contains(problems[0].Message, "is not the name of an option") {
		t.Errorf("%v", problems)
	}
}

// Options that identify a node, or locate and authenticate to the broker and the database, belong
// to regiond.
func TestOwnedOptions(t *testing.T) {
	_, problems := carried(t, `{"nova": {"conf": {"DEFAULT": {"host": "compute1", "my_ip": "10.0.0.1", "transport_url": "rabbit://guest:guest@localhost:5672/"},
		"database": {"connection": "sqlite:////tmp/nova"}, "placement": {"username": "me", "valid_interfaces": "public"}}},
		"keystone": {"conf": {"token": {"provider": "jws"}}}, "neutron": {"conf": {"ovs": {"bridge_mappings": "a:b"}}}}`)
	for field, want := range map[string]string{
		"nova.conf.DEFAULT.host":           "[DEFAULT] host: regiond sets this option itself: it identifies this node; remove it",
		"nova.conf.DEFAULT.my_ip":          "it identifies this node",
		"nova.conf.DEFAULT.transport_url":  "it contains a secret that regiond manages",
		"nova.conf.database.connection":    "it contains a secret that regiond manages",
		"nova.conf.placement.username":     "it belongs to a password that regiond manages",
		"keystone.conf.token.provider":     "regiond generates the keys",
		"neutron.conf.ovs.bridge_mappings": "it follows from the cluster's physicalNetworks",
	} {
		if n := problemsOf(problems, field); len(n) != 1 || !strings.Contains(n[0].Message, want) {
			t.Errorf("%s: %v, want one: %s", field, n, want)
		}
	}
	if len(problems) != 7 {
		t.Errorf("%d problems:\n%v", len(problems), errors.Join(asErrors(problems)...))
	}
}

// An option and the value that the templates print for it can't both be set: it would be unclear
// which one is in force.
func TestOptionBesideItsValue(t *testing.T) {
	_, problems := carried(t, `{"nova": {"reserved_host_memory_mb": 8192, "conf": {"DEFAULT": {"reserved_host_memory_mb": 512}}}}`)
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "[DEFAULT] reserved_host_memory_mb is set here to 512, and by "+
		"spec.openstack.clusters[0].values.nova.reserved_host_memory_mb to 8192; keep one of them") {
		t.Errorf("%v", problems)
	}
	if _, problems := carried(t, `{"nova": {"conf": {"DEFAULT": {"reserved_host_memory_mb": 512}}}}`); problems != nil {
		t.Errorf("with a default: got %v, want no problem", problems)
	}
}

// Each mistake is reported once, although pods and nodes have the option, and all are reported
// together.
func TestMistakesAreReportedOnce(t *testing.T) {
	_, problems := carried(t, `{"nova": {"virt_tpye": "qemu", "conf": {"DEFAULT": {"cpu_alocation_ratio": 3,
		"default_log_levels": "amqp=WARN,\n sqlalchemy=WARN"}}}}`)
	for field, want := range map[string]string{
		"nova.virt_tpye":                        "no template uses nova.virt_tpye; did you mean nova.virt_type?",
		"nova.conf.DEFAULT.cpu_alocation_ratio": "nova of epoxy has no such option; did you mean cpu_allocation_ratio?",
		"nova.conf.DEFAULT.default_log_levels":  "has a line break, which would begin another option",
	} {
		if n := problemsOf(problems, field); len(n) != 1 || !strings.Contains(n[0].Message, want) {
			t.Errorf("%s: %v, want one: %s", field, n, want)
		}
	}
	if len(problems) != 3 {
		t.Errorf("%d problems:\n%v", len(problems), errors.Join(asErrors(problems)...))
	}
}

// A size is in bytes or has a unit; a fraction, which is common elsewhere, would stop the broker
// from starting.
func TestSizes(t *testing.T) {
	for value, good := range map[string]bool{`0.4`: false, `536870912`: true, `"512MB"`: true, `"1GiB"`: true, `"512 MB"`: false, `12`: false,
		`"512mb"`: false, `"1G\nlog.file = /x"`: false} {
		_, problems := carried(t, `{"rabbitmq": {"memory_high_watermark": `+value+`}}`)
		if (problems == nil) != good {
			t.Errorf("%s: %v", value, problems)
		}
	}
}

// No operator's value can escape its position in a file.
func TestValuesStayWithinTheirPlace(t *testing.T) {
	for values, want := range map[string]string{
		`{"openvswitch": {"other_config": ["a='; reboot; '"]}}`:               "item 1 is",
		`{"libvirt": {"security_driver": "none\"\nuser = \"root"}}`:           "must be one of",
		`{"rabbitmq": {"log_level": "info\nlog.file = /etc/shadow"}}`:         "must be one of",
		`{"keystone": {"region": "a'; DROP TABLE x"}}`:                        "must be a text that matches",
		`{"neutron": {"vxlan": {"vni_ranges": "1:2\n[DEFAULT]"}}}`:            "must be a text that matches",
		`{"nova": {"conf": {"DEFAULT": {"my_block_storage_ip": "$(id)\n"}}}}`: "has a line break",
	} {
		if _, problems := carried(t, values); len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %s", values, problems, want)
		}
	}
	files, problems := carried(t, `{"openvswitch": {"other_config": ["dpdk-init=true", "dpdk-extra=\"-a 0000:01:00.0, --no-huge\""]}}`)
	if problems != nil {
		t.Fatal(problems)
	}
	mustHave(t, files, "nodes/node1/etc/regiond/openvswitch/settings",
		`ovs-vsctl --timeout=60 --no-wait set Open_vSwitch . 'other_config:dpdk-extra="-a 0000:01:00.0, --no-huge"'`)
}

// The formats of files refuse invalid values themselves, in case validation of the declaration
// missed them.
func TestFormatsGuardTheirFiles(t *testing.T) {
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	for network, want := range map[region.PhysicalNetwork]string{
		{Name: "a", Interface: "eth0'; reboot; '"}: "has characters with a special meaning in format shell (openstack/openvswitch/bridges:",
		{Name: "a; reboot", Interface: "eth0"}:     "has characters with a special meaning in format shell",
		{Name: "a$my_ip", Interface: "eth0"}:       "has a dollar, which oslo.config would substitute",
		{Name: "a", Interface: "eth0\nreboot"}:     "has a line break",
	} {
		c := realCluster(t, s, region.ReleaseEpoxy)
		c.Declaration.PhysicalNetworks = []region.PhysicalNetwork{network}
		v, _, err := s.Values(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Node(v, node1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", network, err, want)
		}
	}
}

// A quoted value may have any character except those that end the quotes.
func TestQuotedValuesStayInTheirQuotes(t *testing.T) {
	files := fstest.MapFS{}
	err := fs.WalkDir(templates.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(templates.FS, name)
		if name == "files/openvswitch/bridges" {
			b = bytes.ReplaceAll(b, []byte("{{ .interface }}"), []byte("'{{ .interface }}'"))
		}
		files[name] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(Templates{Name: "openstack", FS: files})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"eth0; reboot": "", "eth0'; reboot; '": "has a quote or a backslash, which would end the enclosing shell string"} {
		c := realCluster(t, s, region.ReleaseEpoxy)
		c.Declaration.PhysicalNetworks = []region.PhysicalNetwork{{Name: "a", Interface: name}}
		v, _, err := s.Values(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Node(v, node1); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Every file that prints a value declares its format.
func TestFilesHaveFormats(t *testing.T) {
	for format, want := range map[string]string{"": "has no known format", "bash": "has no known format; formats are arguments, ini, json"} {
		_, err := testSource(t, map[string]string{"files.yaml": "- {path: /etc/x, template: nova/keys, format: '" + format +
			"', roles: [nova], mode: \"0600\", owner: root, group: root}\n", "services.yaml": "[]"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %q: %v", format, err)
		}
	}
}
