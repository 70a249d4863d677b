// Package cloudtest fakes the APIs of an OpenStack cluster for tests: the parts of Keystone, Nova,
// Neutron, Glance and Placement that regiond uses. Tests with it assert regiond's requests;
// end-to-end tests show that the real services understand them.
package cloudtest

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Item is an item of a collection, as JSON.
type Item = map[string]any

// Cloud is a server of all APIs, under /identity, /compute, /network, /image and /placement.
type Cloud struct {
	URL string

	mu          sync.Mutex
	next        int
	collections map[string]*collection
	tokens      map[string]string // token to user name
	files       map[string][]byte // of images
	allocations map[string][]string
	writes      []string
	corrupt     bool
	chunked     bool
	exhausted   bool
	// refuse answers requests with a status, by "METHOD /path" prefixes.
	refuse map[string]int
}

// collection is the collection at a path.
type collection struct {
	plural, singular string // singular is empty if single items are not wrapped
	key              string // id or uuid
	created          int    // status of a creation
	given            Item   // fields that the server itself chooses
	items            []Item
}

// New starts a cloud in which user admin has the password "admin-password".
func New(t testing.TB) *Cloud {
	c := &Cloud{tokens: map[string]string{}, files: map[string][]byte{}, allocations: map[string][]string{}, refuse: map[string]int{}}
	wrapped := func(plural string) *collection {
		return &collection{plural: plural, singular: strings.TrimSuffix(plural, "s"), key: "id", created: http.StatusCreated}
	}
	c.collections = map[string]*collection{
		"/identity/v3/domains": wrapped("domains"), "/identity/v3/projects": wrapped("projects"), "/identity/v3/roles": wrapped("roles"),
		"/identity/v3/users": wrapped("users"), "/identity/v3/services": wrapped("services"), "/identity/v3/endpoints": wrapped("endpoints"),
		"/network/v2.0/networks": wrapped("networks"), "/network/v2.0/ports": wrapped("ports"), "/network/v2.0/agents": wrapped("agents"),
		"/network/v2.0/subnetpools": wrapped("subnetpools"),
		"/compute/v2.1/os-services": wrapped("services"), "/compute/v2.1/flavors/detail": wrapped("flavors"),
		"/compute/v2.1/os-hypervisors/detail": wrapped("hypervisors"), "/compute/v2.1/servers/detail": wrapped("servers"),
		"/image/v2/images":              {plural: "images", key: "id", created: http.StatusCreated},
		"/placement/resource_providers": {plural: "resource_providers", key: "uuid", created: http.StatusOK},
	}
	c.Add("/identity/v3/domains", Item{"id": "default", "name": "Default"})
	c.Add("/identity/v3/projects", Item{"name": "admin", "domain_id": "default"})
	c.Add("/identity/v3/roles", Item{"name": "admin"})
	c.Add("/identity/v3/users", Item{"name": "admin", "domain_id": "default", "enabled": true, "password": "admin-password"})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Add adds an item to a collection and returns its id.
func (c *Cloud) Add(path string, i Item) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.add(c.collections[path], maps.Clone(i))
}

func (c *Cloud) add(to *collection, i Item) string {
	if i[to.key] == nil {
		c.next++
		i[to.key] = fmt.Sprintf("id-%d", c.next)
	}
	to.items = append(to.items, i)
	id, _ := i[to.key].(string)
	return id
}

// Items returns the items of a collection.
func (c *Cloud) Items(path string) []Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.collections[path].items)
}

// Writes returns the requests since the last call that changed something, except for logins.
func (c *Cloud) Writes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.writes
	c.writes = nil
	return w
}

// Refuse makes the server answer requests that begin with "METHOD /path" with a status; 0 ends
// that.
func (c *Cloud) Refuse(prefix string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse[prefix] = status
}

// Given sets the fields that the service itself chooses for new items of a collection.
func (c *Cloud) Given(path string, i Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collections[path].given = i
}

// Corrupt makes downloads of images return other bytes than were uploaded.
func (c *Cloud) Corrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corrupt = true
}

// Chunked reports whether the last image was uploaded with chunked transfer coding (RFC 9112,
// section 7.1).
func (c *Cloud) Chunked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chunked
}

// Exhaust uses up the tenant networks: only networks whose request has a provider type can be
// created.
func (c *Cloud) Exhaust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exhausted = true
}

// Allocate gives a consumer resources of a provider.
func (c *Cloud) Allocate(provider, consumer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocations[provider] = append(c.allocations[provider], consumer)
}
