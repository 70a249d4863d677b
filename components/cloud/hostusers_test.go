package cloud_test

import (
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cloud/cloudtest"
)

// hostUsers returns the names of Keystone's users that begin like those of hosts.
func hostUsers(c *cloudtest.Cloud) (names []string) {
	for _, u := range c.Items("/identity/v3/users") {
		if n, _ := u["name"].(string); strings.HasPrefix(n, "compute-") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func TestHostUsers(t *testing.T) {
	c := cloudtest.New(t)
	s := login(t, c)
	if _, err := s.Ensure(t.Context(), catalogue()); err != nil {
		t.Fatal(err)
	}
	h := cloud.HostUsers{Project: "service", Role: "service", Prefix: "compute-",
		Users: []cloud.User{{Name: "compute-n1", Password: "one"}, {Name: "compute-n2", Password: "two"}}}
	if changed, err := s.EnsureHostUsers(t.Context(), h); err != nil || len(changed) != 4 {
		t.Fatalf("got %v %q, want two users created and given a role", err, changed)
	}
	for _, u := range h.Users {
		if _, err := cloud.Login(t.Context(), cloud.Credentials{URL: c.URL + "/identity", User: u.Name, Password: u.Password, Project: "service"}); err != nil {
			t.Errorf("%s can't log in: %v", u.Name, err)
		}
	}
	for _, u := range c.Items("/identity/v3/users") {
		if n, _ := u["name"].(string); !strings.HasPrefix(n, "compute-") {
			continue
		}
		for key, given := range u {
			if ids, ok := given.([]string); ok && len(ids) != 1 {
				t.Errorf("user %v has in %s the roles %v, want one", u["name"], key, ids)
			}
		}
	}
	c.Writes()
	if changed, err := s.EnsureHostUsers(t.Context(), h); err != nil || len(changed) > 0 || len(c.Writes()) > 0 {
		t.Errorf("the second time: got %v %q, want nothing changed", err, changed)
	}

	// n1 is enrolled again; n2 is leaving but still has guests, so its user stays unchanged.
	h.Users, h.Keep = []cloud.User{{Name: "compute-n1", Password: "other"}}, []string{"compute-n2"}
	if changed, err := s.EnsureHostUsers(t.Context(), h); err != nil || len(changed) != 1 {
		t.Errorf("another password: got %v %q", err, changed)
	}
	if _, err := cloud.Login(t.Context(), cloud.Credentials{URL: c.URL + "/identity", User: "compute-n1", Password: "other", Project: "service"}); err != nil {
		t.Errorf("login with the new password: %v", err)
	}
	if got := hostUsers(c); !slices.Equal(got, []string{"compute-n1", "compute-n2"}) {
		t.Errorf("got the users %v, want those of both hosts", got)
	}
	h.Keep = nil
	if _, err := s.EnsureHostUsers(t.Context(), h); err != nil {
		t.Error(err)
	}
	if got := hostUsers(c); !slices.Equal(got, []string{"compute-n1"}) {
		t.Errorf("users %v, want that of the host that is gone deleted", got)
	}
}

// An operator's own user that happens to have a host's name or prefix is neither adopted nor
// deleted.
func TestUsersOfOthersAreNotAdopted(t *testing.T) {
	c := cloudtest.New(t)
	s := login(t, c)
	c.Add("/identity/v3/users", cloudtest.Item{"name": "compute-n1", "domain_id": "default", "enabled": true, "password": "theirs"})
	c.Add("/identity/v3/users", cloudtest.Item{"name": "compute-team", "domain_id": "default", "enabled": true, "password": "theirs"})
	h := cloud.HostUsers{Project: "service", Role: "service", Prefix: "compute-", Users: []cloud.User{{Name: "compute-n1", Password: "one"}}}
	if _, err := s.EnsureHostUsers(t.Context(), h); err == nil || !strings.Contains(err.Error(), "compute-n1") {
		t.Errorf("got %v, want a refusal that names the user", err)
	}
	for _, u := range c.Items("/identity/v3/users") {
		if n, _ := u["name"].(string); strings.HasPrefix(n, "compute-") && u["password"] != "theirs" {
			t.Errorf("the password of %v was changed", n)
		}
	}
	if got := hostUsers(c); len(got) != 2 {
		t.Errorf("users %v, want both left", got)
	}
}
