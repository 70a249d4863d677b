package configgen

import (
	"strings"
	"testing"

	"regiond.dev/regiond/region"
)

// mustSay checks that a text has all parts.
func mustSay(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func TestLayersThatDisagree(t *testing.T) {
	s := mustSource(t, nil)
	for name, tc := range map[string]struct {
		c    Cluster
		want []string // parts of the error; none: no error
	}{
		"node against cluster": {testCluster(`{"nova": {"workers": 4}}`, "", own("node1", `{"nova": {"workers": 8}}`, "")),
			[]string{`spec.openstack.clusters[0].nodes[0].values.nova.workers (region.yaml:`,
				"says 8, but spec.openstack.clusters[0].values.nova.workers (region.yaml:",
				"says 4; put one under overrides"}},
		"the same twice":       {testCluster(`{"nova": {"workers": 4}}`, "", own("node1", `{"nova": {"workers": 4.0}}`, "")), nil},
		"override of the node": {testCluster(`{"nova": {"workers": 4}}`, "", own("node1", "", `{"nova": {"workers": 8}}`)), nil},
		"override against node": {testCluster("", `{"nova": {"workers": 4}}`, own("node1", `{"nova": {"workers": 8}}`, "")),
			[]string{"overrides.nova.workers", "says 8"}},
		"a fact": {testCluster(`{"cluster": {"address": "10.0.0.9"}}`, ""),
			[]string{"spec.openstack.clusters[0].values.cluster.address (region.yaml:",
				"cluster.address is a fact, which comes from the cluster's own fields; remove it here"}},
		"a fact overridden": {testCluster("", `{"cluster": {"address": "10.0.0.9"}}`), []string{"overrides.cluster.address", "is a fact"}},
		"a mapping for a value": {testCluster("", `{"nova": {"workers": {"api": 1}}}`), []string{"nova.workers",
			"is a mapping, but openstack/values/defaults.yaml:6 says 1"}},
		"a value for a mapping": {testCluster("", `{"nova": {"database": "x"}}`), []string{"is a string, but", "is a mapping"}},
		"a value for a list": {testCluster("", `{"neutron": {"dns": "10.0.0.1"}}`), []string{"neutron.dns",
			"is a string, but openstack/values/defaults.yaml:11 is a list"}},
		"a secret in values": {testCluster(`{"nova": {"password": "x"}}`, ""),
			[]string{"nova.password is a secret, kept in Secret openstack-lab/openstack-secrets", "remove it here"}},
		"a secret overridden": {testCluster("", `{"nova": {"password": "x"}}`), []string{"is a secret"}},
		"a secret on a node": {testCluster("", "", own("node1", "", `{"nova": {"password": "x"}}`)), []string{"nodes[0].overrides.nova.password",
			"is a secret"}},
		"a taken name":               {testCluster(`{"role": "nova"}`, ""), []string{"role is a fact"}},
		"an option outside sections": {testCluster(`{"nova": {"conf": {"debug": true}}}`, ""), []string{"options are given as nova.conf.SECTION.OPTION"}},
		"an option too deep": {testCluster(`{"nova": {"conf": {"DEFAULT": {"debug": {"x": 1}}}}}`, ""), []string{"nova.conf.DEFAULT.debug.x",
			"options are given as"}},
		"a line break":  {testCluster(`{"nova": {"conf": {"DEFAULT": {"default_flavor": "a\nb"}}}}`, ""), []string{"has a line break", "region.yaml:"}},
		"not an object": {testCluster(`[1]`, ""), []string{"spec.openstack.clusters[0].values"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, err := s.Values(tc.c)
			if err == nil {
				_, _, err = s.Node(v, node1)
			}
			switch {
			case err == nil && tc.want != nil:
				t.Error("no error")
			case err != nil && tc.want == nil:
				t.Error(err)
			case err != nil:
				mustSay(t, err.Error(), tc.want...)
				if strings.Contains(err.Error(), "S3CRET") {
					t.Error("the error shows a secret")
				}
			}
		})
	}
}

func TestUnknownRelease(t *testing.T) {
	c := testCluster("", "")
	c.Declaration.Release = "zed"
	_, _, err := mustSource(t, nil).Values(c)
	if err == nil {
		t.Fatal("no error")
	}
	mustSay(t, err.Error(), `spec.openstack.clusters[0].release: release "zed" is not known; known: epoxy, gazpacho`)
}

func TestMissingVariables(t *testing.T) {
	s := mustSource(t, map[string]string{
		"files/nova/keys": "{{ .nova.api.workers }}\n{{ if .nova.debgu }}{{ .nova.not_looked_at }}{{ end }}\n{{ .nova.database }}\n",
		"files/nova/nova.conf": "[DEFAULT]\nx = {{ .nova.token }}\n" +
			"{{ range .physical_networks }}# {{ .role }}\n{{ end }}\ny = {{ join .nova.virt_type \",\" }}\n",
		"values/secrets.yaml": "nova: {token: {generate: uuid}}",
	})
	v := mustValues(t, s, testCluster("", ""))
	_, _, err := s.Render(v, "nova")
	if err == nil {
		t.Fatal("no error")
	}
	mustSay(t, err.Error(), // all of them at once
		"nova/keys:1: .nova.api.workers is not set by any layer; set it in spec.openstack.clusters[0].values.nova.api.workers (region.yaml:",
		"nova/keys:2: .nova.debgu is not set by any layer",
		"did you mean .nova.debug?",
		"nova/keys:3: .nova.database is a mapping; name a value in it",
		"nova/nova.conf:2: .nova.token is a secret that is missing: Secret openstack-lab/openstack-secrets, key secrets.json has no nova.token",
		"nova/nova.conf:3: an item of .physical_networks has no .role",
		"nova/nova.conf:5: .nova.virt_type (openstack/values/defaults.yaml:3) is a string, must be a list")
	if strings.Contains(err.Error(), "not_looked_at") {
		t.Errorf("a branch that is not taken was evaluated: %v", err)
	}
}

func TestSecretsInConditions(t *testing.T) {
	s := mustSource(t, map[string]string{"files/nova/keys": "{{ if .nova.password }}x{{ end }}{{ if eq .nova.debug 1 }}y{{ end }}"})
	_, _, err := s.Render(mustValues(t, s, testCluster("", "")), "nova")
	if err == nil {
		t.Fatal("no error")
	}
	mustSay(t, err.Error(), "nova/keys:1: .nova.password (Secret openstack-lab/openstack-secrets", "is a secret, which conditions can't use",
		"eq compares true or false with a number")
}

func TestSecretsThatAreNotKnown(t *testing.T) {
	s := mustSource(t, nil)
	c := testCluster("", "")
	c.Secrets = nil
	files, _, err := s.Render(mustValues(t, s, c), "nova")
	if err != nil {
		t.Fatal(err)
	}
	if want := "<secret:nova.keys[0]>\n<secret:nova.keys[1]>\n"; files[0].Content != want {
		t.Errorf("%q, want %q", files[0].Content, want)
	}
	mustSay(t, files[1].Content, "nova:<secret:nova.database.password>@mariadb")
}

func TestUnusedValues(t *testing.T) {
	s := mustSource(t, nil)
	_, warnings, err := s.Values(testCluster(`{"nova": {"debgu": true, "database": {"host": "x"}, "conf": {"api": {"auth_strategy": "noauth2"}}},
		"glance": {"conf": {"DEFAULT": {"x": 1}}}}`, ""))
	if err != nil || len(warnings) != 2 {
		t.Fatal(err, warnings)
	}
	mustSay(t, warnings[1].Error(), "spec.openstack.clusters[0].values.nova.debgu (region.yaml:", "no template uses nova.debgu; did you mean nova.debug?")
	mustSay(t, warnings[0].Error(), "no template uses glance.conf.DEFAULT.x")
	c := testCluster("", "", own("node1", `{"nvoa": {"debug": true}}`, ""))
	_, warnings, err = s.Node(mustValues(t, s, c), node1)
	if err != nil || len(warnings) != 1 {
		t.Fatal(err, warnings)
	}
	mustSay(t, warnings[0].Error(), "nodes[0].values.nvoa.debug", "did you mean nova?")
}

func TestOptionsOfTheRelease(t *testing.T) {
	s := mustSource(t, nil)
	for name, tc := range map[string]struct {
		conf           string
		release        region.OpenStackRelease
		wrong, warning []string
	}{
		"in another release": {`{"libvirt": {"live_migration_parallel_connections": 8}}`, "epoxy", []string{
			"spec.openstack.clusters[0].values.nova.conf.libvirt.live_migration_parallel_connections (region.yaml:",
			"[libvirt] live_migration_parallel_connections: nova of epoxy has no such option; it exists in gazpacho"}, nil},
		"it has":     {`{"libvirt": {"live_migration_parallel_connections": 8}}`, "gazpacho", nil, nil},
		"misspelled": {`{"libvirt": {"virt_tpye": "kvm"}}`, "epoxy", []string{"[libvirt] virt_tpye", "did you mean virt_type?"}, nil},
		"misspelled section": {`{"libvrit": {"virt_type": "kvm"}}`, "epoxy",
			[]string{"[libvrit] virt_type: nova of epoxy has no such section; did you mean [libvirt]?"}, nil},
		"wrong section": {`{"api": {"cpu_mode": "x"}}`, "epoxy", []string{"it is in [libvirt]"}, nil},
		"renamed": {`{"DEFAULT": {"verbose": true}}`, "epoxy", nil,
			[]string{"[DEFAULT] verbose: is deprecated; its name in epoxy is [DEFAULT] debug"}},
		"moved":            {`{"DEFAULT": {"use_virt": "x"}}`, "epoxy", nil, []string{"its name in epoxy is [libvirt] virt_type"}},
		"with dashes":      {`{"DEFAULT": {"default-flavor": "/x"}}`, "epoxy", nil, nil},
		"mediated devices": {`{"mdev_nvidia-35": {"device_addresses": "0000:84:00.0"}}`, "epoxy", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCluster(`{"nova": {"conf": `+tc.conf+`}}`, "")
			c.Declaration.Release = tc.release
			_, warnings, err := s.Node(mustValues(t, s, c), node1)
			if (err != nil) != (tc.wrong != nil) || len(warnings) != len(tc.warning) {
				t.Fatal(err, warnings)
			}
			if err != nil {
				mustSay(t, err.Error(), tc.wrong...)
			}
			for i, w := range tc.warning {
				mustSay(t, warnings[i].Error(), w)
			}
		})
	}
}

// An unknown option that comes from a template is reported with the template's line.
func TestUnknownOptionOfATemplate(t *testing.T) {
	s := mustSource(t, map[string]string{"files/nova/nova.conf": "[DEFAULT]\ndebug = true\n\n[pci]\n# aliases\nalais = {{ .nova.virt_type }}\n"})
	_, _, err := s.Render(mustValues(t, s, testCluster("", "")), "nova")
	if err == nil {
		t.Fatal("no error")
	}
	mustSay(t, err.Error(), "nova/nova.conf:6: [pci] alais: nova of epoxy has no such option; did you mean alias?")
}

func TestLiveMigrationConnectionsOfTheCarriedReleases(t *testing.T) {
	for release, want := range map[string]bool{"epoxy": false, "gazpacho": true} {
		all, err := loadOptions()
		if err != nil {
			t.Fatal(err)
		}
		if all[release] == nil {
			continue // no image of it has been built yet
		}
		if got := all[release]["nova"]["libvirt"].has("live_migration_parallel_connections"); got != want {
			t.Errorf("%s: %v", release, got)
		}
	}
}

func TestGlanceStores(t *testing.T) {
	s := &Source{options: map[string]optionData{"epoxy": {"glance": {"DEFAULT": {Options: []string{"enabled_backends"}},
		"glance_store": {Options: []string{"filesystem_store_datadir"}}}}}}
	var err error
	if s.rules, err = loadDynamic(); err != nil {
		t.Fatal(err)
	}
	content := "[DEFAULT]\nenabled_backends = fs:file, other:rbd\n[fs]\nfilesystem_store_datadir = /x\n" +
		"[os_glance_tasks_store]\nfilesystem_store_datadir = /y\n" +
		"[third]\nfilesystem_store_datadir = /z\n[other]\nunknown = 1\n"
	found := s.checkOptions("glance", "epoxy", []byte(content))
	if len(found) != 2 || found[0].section != "third" || found[1].option != "unknown" {
		t.Errorf("%+v", found)
	}
}
