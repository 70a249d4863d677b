package openstack_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
)

// TestNextIsDesired: whatever changes, the reused parts of the last state equal a fresh rendering.
func TestNextIsDesired(t *testing.T) {
	c, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	in := programInput(region.ReleaseEpoxy)
	in.Hosts = append(in.Hosts, openstack.Host{Name: "node2", Address: "10.99.0.102"})
	last, err := c.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	values := func(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }
	for _, step := range []struct {
		name string
		// anew is what is rendered again; all else is taken over.
		anew   []string
		change func()
	}{
		{"nothing", nil, func() {}},
		{"a registration", []string{"node1"}, func() { in.Hosts[0].Registration = "9f2c1b1e-0000-4000-8000-000000000009" }},
		{"an address", []string{"node2"}, func() { in.Hosts[1].Address = "10.99.0.103" }},
		{"a host more", []string{"node3"}, func() { in.Hosts = append(in.Hosts, openstack.Host{Name: "node3", Address: "10.99.0.104"}) }},
		{"values of a host", []string{"node2"}, func() {
			in.Cluster.Spec.Nodes = []region.OpenStackNodeValues{{Name: "node2", Values: values(`{"nova": {"conf": {"DEFAULT": {"debug": true}}}}`)}}
		}},
		{"values of a host that is not there", nil, func() {
			in.Cluster.Spec.Nodes = append(in.Cluster.Spec.Nodes, region.OpenStackNodeValues{Name: "node9", Values: values(`{"nova": {"conf": {"DEFAULT": {"debug": true}}}}`)})
		}},
		{"values of the cluster", []string{"control plane", "node1", "node2", "node3"}, func() {
			in.Cluster.Spec.Values = values(`{"nova": {"conf": {"DEFAULT": {"vif_plugging_timeout": 299}}}}`)
		}},
		{"a host's packages", []string{"node1"}, func() { in.Hosts[0].Release = region.ReleaseGazpacho }},
		{"a contribution", []string{"node2"}, func() { in.Hosts[1].Contributions = map[string][]byte{"vpn": contribution(t, "/etc/vpn.conf")} }},
		{"a contribution that can't be merged", nil, func() {
			in.Hosts[1].Contributions = map[string][]byte{"vpn": contribution(t, "/etc/nova/nova.conf")}
		}},
		{"nothing again", nil, func() {}},
		{"a host less", nil, func() { in.Hosts = in.Hosts[1:] }},
		{"images", []string{"control plane", "node3"}, func() {
			i := in.Images.Images["nova"]
			i.Digest = "sha256:" + i.Digest[10:] + "bbb"
			in.Images.Images["nova"] = i
		}},
		{"secrets", []string{"control plane", "node3"}, func() { in.Secrets = nil; in.DataDir = "/srv/regiond" }},
	} {
		step.change()
		want, err := c.Desired(in)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		next, err := c.Next(in, last)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if !reflect.DeepEqual(next.Objects, want.Objects) || !reflect.DeepEqual(next.Configs, want.Configs) {
			t.Errorf("%s changed: the control plane differs from a fresh rendering", step.name)
		}
		if !reflect.DeepEqual(next.Nodes, want.Nodes) || !reflect.DeepEqual(next.Digests, want.Digests) {
			t.Errorf("%s changed: the hosts differ from a fresh rendering", step.name)
		}
		if !reflect.DeepEqual(next.Warnings, want.Warnings) {
			t.Errorf("%s changed: got the warnings %q, want %q", step.name, next.Warnings, want.Warnings)
		}
		if got := renderedAnew(last, next); !slices.Equal(got, step.anew) {
			t.Errorf("%s changed: rendered again are %v, want %v", step.name, got, step.anew)
		}
		last = next
	}
}

// renderedAnew is what of a state is not taken over from the last one: it is in memory of its own.
func renderedAnew(last, next *openstack.State) (anew []string) {
	if &next.Objects[0] != &last.Objects[0] {
		anew = append(anew, "control plane")
	}
	for _, name := range slices.Sorted(maps.Keys(next.Nodes)) {
		if was, had := last.Nodes[name]; !had || &next.Nodes[name].Files[0] != &was.Files[0] {
			anew = append(anew, name)
		}
	}
	return anew
}

// contribution of a bundle: a file and a service that reads it.
func contribution(t *testing.T, path string) []byte {
	t.Helper()
	content, _, err := configuration.Configuration{
		Files:    []configuration.File{{Path: path, Mode: "0644", Owner: "root", Group: "root", Content: "x\n"}},
		Services: []configuration.Service{{Name: "vpn.service", Files: []string{path}}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A host runs the contributions of all contributors in one configuration. A contribution that can't
// be merged leaves only its host unchanged.
func TestContributionsAreMerged(t *testing.T) {
	in := programInput(region.ReleaseEpoxy)
	in.Hosts = append(in.Hosts, openstack.Host{Name: "node2", Address: "10.99.0.102"})
	render := func() *openstack.State {
		t.Helper()
		s, err := openstack.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	alone := render()
	in.Hosts[0].Contributions = map[string][]byte{"vpn": contribution(t, "/etc/vpn.conf")}
	both := render()
	has := func(c configuration.Configuration, path, service string) bool {
		return slices.ContainsFunc(c.Files, func(f configuration.File) bool { return f.Path == path }) &&
			slices.ContainsFunc(c.Services, func(s configuration.Service) bool { return s.Name == service })
	}
	if n := both.Nodes["node1"]; !has(n, "/etc/vpn.conf", "vpn.service") || !has(n, "/etc/nova/nova.conf", "nova-compute.service") ||
		len(n.Files) != len(alone.Nodes["node1"].Files)+1 || both.Digests["node1"] == alone.Digests["node1"] {
		t.Errorf("files %d, services %+v, want OpenStack's and the bundle's", len(n.Files), n.Services)
	}
	for what, content := range map[string][]byte{
		"nova.conf has two owners, openstack and vpn": contribution(t, "/etc/nova/nova.conf"),
		"contribution of vpn":                         []byte("{"),
		"reads /etc/none":                             []byte(`{"files":null,"services":[{"name":"vpn.service","files":["/etc/none"]}]}`),
	} {
		in.Hosts[0].Contributions["vpn"] = content
		s := render()
		if _, given := s.Nodes["node1"]; given || !slices.ContainsFunc(s.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "host node1 keeps its configuration: ") && strings.Contains(w, what)
		}) {
			t.Errorf("%s: got a configuration: %t, warnings %q; want none, and a warning", what, given, s.Warnings)
		}
		if s.Digests["node2"] != alone.Digests["node2"] {
			t.Errorf("%s: the configuration of another host changed", what)
		}
	}
}

// TestHostsGetTheConfigurationOfTheirPackages: whatever the cluster's release is.
func TestHostsGetTheConfigurationOfTheirPackages(t *testing.T) {
	for _, of := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		want := program(t, of).Digests["node1"]
		for _, cluster := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
			in := programInput(cluster)
			in.Hosts[0].Release = of
			s, err := openstack.Desired(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Digests["node1"]; got != want {
				t.Errorf("packages of %s in a cluster of %s: got %s, want %s", of, cluster, got, want)
			}
		}
		if other := program(t, region.ReleaseEpoxy).Digests["node1"]; of == region.ReleaseGazpacho && other == want {
			t.Error("hosts of both releases have the same configuration: the test shows nothing")
		}
	}
	in := programInput(region.ReleaseEpoxy)
	in.Hosts[0].Release = "hibiscus"
	s, err := openstack.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, configured := s.Nodes["node1"]; configured || !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.HasPrefix(w, "host node1 keeps its configuration") }) {
		t.Errorf("a host of an unknown release: got configured %t, warnings %q; want a warning only", configured, s.Warnings)
	}
}
