package cloud_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cloud/cloudtest"
)

func login(t *testing.T, c *cloudtest.Cloud) *cloud.Session {
	t.Helper()
	s, err := cloud.Login(t.Context(), cloud.Credentials{URL: c.URL + "/identity", User: "admin", Password: "admin-password", Project: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func catalogue() cloud.Catalogue {
	return cloud.Catalogue{Owner: "c1", Region: "RegionOne", Project: "service", Roles: []string{"admin", "service"},
		Users: []cloud.User{{Name: "nova", Password: "nova-password"}, {Name: "glance", Password: "glance-password"}},
		Services: []cloud.Service{{Name: "nova", Type: "compute", URL: "http://10.0.0.1:8774/v2.1"}, {Name: "glance", Type: "image",
			URL: "http://10.0.0.1:9292"}}}
}

func TestLogin(t *testing.T) {
	c := cloudtest.New(t)
	s := login(t, c)
	if err := s.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if s.ProjectID == "" || s.Expires.IsZero() {
		t.Errorf("got the session %+v, want a project and an expiry", s)
	}
	_, err := cloud.Login(t.Context(), cloud.Credentials{URL: c.URL + "/identity", User: "admin", Password: "guessed", Project: "admin"})
	if err == nil || strings.Contains(err.Error(), "guessed") {
		t.Errorf("wrong password: got %v, want an error without the password", err)
	}
	s.SetToken("made up")
	if err := s.Validate(t.Context()); err == nil || !strings.Contains(err.Error(), "Fernet") {
		t.Errorf("invalid token: got %v, want an error that mentions Fernet keys", err)
	}
}

func TestEnsureIsIdempotent(t *testing.T) {
	c := cloudtest.New(t)
	s := login(t, c)
	changed, err := s.Ensure(t.Context(), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) == 0 || len(c.Items("/identity/v3/endpoints")) != 6 || len(c.Items("/identity/v3/users")) != 3 {
		t.Errorf("changed %q; endpoints %v", changed, c.Items("/identity/v3/endpoints"))
	}
	c.Writes()
	if changed, err = s.Ensure(t.Context(), catalogue()); err != nil || len(changed) > 0 {
		t.Errorf("the second time: got the changes %q and %v, want none", changed, err)
	}
	if w := c.Writes(); len(w) > 0 {
		t.Errorf("the second time: got the requests %q, want none", w)
	}
}

// A regiond that was killed after any of the requests resumes.
func TestEnsureResumes(t *testing.T) {
	for _, cut := range []string{"POST /identity/v3/roles", "POST /identity/v3/users", "PUT /identity/v3/projects", "POST /identity/v3/services",
		"POST /identity/v3/endpoints"} {
		c := cloudtest.New(t)
		s := login(t, c)
		c.Refuse(cut, http.StatusServiceUnavailable)
		if _, err := s.Ensure(t.Context(), catalogue()); err == nil {
			t.Errorf("%s: got no error from the refused request", cut)
		}
		c.Refuse(cut, 0)
		if _, err := s.Ensure(t.Context(), catalogue()); err != nil {
			t.Errorf("%s: %v", cut, err)
		}
		if n := len(c.Items("/identity/v3/endpoints")); n != 6 {
			t.Errorf("%s: got %d endpoints, want 6", cut, n)
		}
		if n := len(c.Items("/identity/v3/services")); n != 2 {
			t.Errorf("%s: %d services", cut, n)
		}
	}
}

func TestEnsureRepairsDrift(t *testing.T) {
	c := cloudtest.New(t)
	s := login(t, c)
	want := catalogue()
	if _, err := s.Ensure(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Users[0].Password = "rotated"
	want.Services[1].URL = "http://10.0.0.2:9292"
	want.Verified = true
	if changed, err := s.Ensure(t.Context(), want); err != nil || len(changed) != 3 {
		t.Errorf("verified passwords were tried: got the changes %q and %v", changed, err)
	}
	want.Verified = false
	changed, err := s.Ensure(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != 1 { // the password
		t.Errorf("got the changes %q, want that of the password", changed)
	}
	if strings.Contains(strings.Join(changed, " "), "rotated") {
		t.Errorf("a change shows the password: %q", changed)
	}
	if _, err := cloud.Login(t.Context(), cloud.Credentials{URL: c.URL + "/identity", User: "nova", Password: "rotated",
		Project: "service"}); err != nil {
		t.Error(err)
	}
	if i := slices.IndexFunc(c.Items("/identity/v3/endpoints"), func(i cloudtest.Item) bool { return i["url"] == "http://10.0.0.1:9292" }); i >= 0 {
		t.Error("an endpoint has the old address")
	}
}

func TestEnsureRefusesToChoose(t *testing.T) {
	for path, item := range map[string]cloudtest.Item{
		"/identity/v3/services": {"name": "nova2", "type": "compute", "enabled": true},
		"/identity/v3/users":    {"name": "nova", "domain_id": "default", "enabled": true},
		"/identity/v3/projects": {"name": "service", "domain_id": "default"},
	} {
		c := cloudtest.New(t)
		s := login(t, c)
		if _, err := s.Ensure(t.Context(), catalogue()); err != nil {
			t.Fatal(err)
		}
		c.Add(path, item)
		_, err := s.Ensure(t.Context(), catalogue())
		var ambiguous *cloud.AmbiguousError
		if !errors.As(err, &ambiguous) || len(ambiguous.IDs) != 2 {
			t.Errorf("%s: got %v, want an AmbiguousError", path, err)
		}
	}
}

// A region is renamed: the endpoints that regiond created, even before it marked them, are removed;
// others stay.
func TestPruneEndpoints(t *testing.T) {
	c := cloudtest.New(t)
	s := login(t, c)
	if _, err := s.Ensure(t.Context(), catalogue()); err != nil {
		t.Fatal(err)
	}
	service := c.Items("/identity/v3/services")[0]["id"].(string)
	item := func(region, description string) cloudtest.Item {
		return cloudtest.Item{"service_id": service, "interface": "public", "region": region, "region_id": region, "url": "http://192.0.2.1", "description": description}
	}
	foreign := []string{c.Add("/identity/v3/endpoints", item("elsewhere", "")),
		c.Add("/identity/v3/endpoints", item("elsewhere", "kept by regiond, cluster another"))}
	c.Add("/identity/v3/endpoints", cloudtest.Item{"service_id": c.Items("/identity/v3/services")[1]["id"], "interface": "public",
		"region": "legacy", "region_id": "legacy", "url": "http://10.0.0.1:9292"})
	ensure := func(region string) cloud.Catalogue {
		t.Helper()
		want := catalogue()
		want.Region = region
		if _, err := s.Ensure(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		return want
	}
	ensure("legacy") // one of its endpoints exists and is adopted
	want := ensure("nl-ams-1")
	old, err := s.Stale(t.Context(), want)
	if err != nil || len(old) != 12 {
		t.Errorf("got stale %v, %v; want the 6 of RegionOne and the 6 of legacy", old, err)
	}
	c.Writes()
	removed, err := s.Prune(t.Context(), want)
	if err != nil || len(removed) != 12 || !strings.Contains(removed[0], "no longer declared") {
		t.Errorf("got removed %q, %v; want 12", removed, err)
	}
	var left []string
	for _, e := range c.Items("/identity/v3/endpoints") {
		if e["region"] != "nl-ams-1" {
			left = append(left, e["id"].(string))
		}
	}
	if !slices.Equal(left, foreign) {
		t.Errorf("endpoints left in other regions: got %v, want the foreign ones %v", left, foreign)
	}
	c.Writes()
	if removed, err = s.Prune(t.Context(), want); err != nil || len(removed) > 0 || len(c.Writes()) > 0 {
		t.Errorf("the second time: got removed %q, %v; want none", removed, err)
	}
	want.Owner = ""
	if old, err := s.Stale(t.Context(), want); err != nil || len(old) > 0 {
		t.Errorf("without an owner: got %v, %v; want none", old, err)
	}
}
