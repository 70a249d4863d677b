package openstack_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// leaves returns the leaves of a tree of secrets, by path.
func leaves(tree map[string]any, path string, into map[string]string) map[string]string {
	for k, v := range tree {
		at := strings.TrimPrefix(path+"."+k, ".")
		switch v := v.(type) {
		case map[string]any:
			leaves(v, at, into)
		case string:
			into[at] = v
		}
	}
	return into
}

// hostSecrets are the secrets of a cluster that all hosts still share. docs/safety.md says what
// each of them allows.
var hostSecrets = []string{"nova.metadata_secret"}

// TestHostsHaveNoCredentialsOfOthers: a host's files do not give the permissions of an
// administrator, a service or another host, neither in Keystone nor in the broker.
func TestHostsHaveNoCredentialsOfOthers(t *testing.T) {
	c, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []region.OpenStackRelease{region.ReleaseEpoxy, region.ReleaseGazpacho} {
		in := programInput(release)
		if in.Secrets, _, err = secrets.Generate(c.Source().Secrets(), nil, nil, rand.Reader); err != nil {
			t.Fatal(err)
		}
		in.Hosts = []openstack.Host{{Name: "n1", UID: "1", Address: "10.99.0.101"}, {Name: "n2", UID: "2", Address: "10.99.0.102"}}
		s, err := c.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range in.Hosts {
			own, ok := in.HostPasswords(h)
			if !ok {
				t.Fatal("got no passwords of hosts although the secrets exist")
			}
			all := ""
			for _, f := range s.Nodes[h.Name].Files {
				all += f.Content
			}
			if !strings.Contains(all, "username = compute-"+h.Name+"\npassword = "+own.Keystone+"\n") || strings.Contains(all, "username = nova\n") {
				t.Errorf("%s, %s: got another user of Keystone, want the host's own", release, h.Name)
			}
			if n := strings.Count(all, "rabbit://compute-"+h.Name+":"+own.RabbitMQ+"@"); n != 2 || strings.Count(all, "rabbit://") != n {
				t.Errorf("%s, %s: got the host's own user of the broker in %d files, want those of Nova and Neutron, and no other user", release, h.Name, n)
			}
			for path, value := range leaves(in.Secrets, "", map[string]string{}) {
				if strings.Contains(all, value) && !slices.Contains(hostSecrets, path) {
					t.Errorf("%s, %s: its files have the secret %s", release, h.Name, path)
				}
			}
			for _, other := range in.Hosts {
				p, _ := in.HostPasswords(other)
				if other.Name != h.Name && (strings.Contains(all, p.Keystone) || strings.Contains(all, p.RabbitMQ)) {
					t.Errorf("%s, %s: its files have a password of %s", release, h.Name, other.Name)
				}
			}
		}
	}
}

func TestHostPasswords(t *testing.T) {
	in := openstack.Input{Secrets: map[string]any{"compute": map[string]any{"host_key": "k"}}}
	first, ok := in.HostPasswords(openstack.Host{Name: "n1", UID: "1"})
	if again, _ := in.HostPasswords(openstack.Host{Name: "n1", UID: "1"}); !ok || again != first {
		t.Errorf("got %v, want the same each time", ok)
	}
	seen := map[string]bool{first.Keystone: true, first.RabbitMQ: true}
	for _, h := range []openstack.Host{{Name: "n1", UID: "2"}, {Name: "n2", UID: "1"}, {Name: "n11", UID: ""}, {Name: "n1", UID: "11"}} {
		p, _ := in.HostPasswords(h)
		for _, password := range []string{p.Keystone, p.RabbitMQ} {
			if seen[password] || len(password) != 64 {
				t.Errorf("host %+v: got a password that another host has, or of the wrong length", h)
			}
			seen[password] = true
		}
	}
	in.Secrets = map[string]any{}
	if _, ok := in.HostPasswords(openstack.Host{Name: "n1"}); ok {
		t.Error("got passwords without the secret that they are derived from")
	}
}
