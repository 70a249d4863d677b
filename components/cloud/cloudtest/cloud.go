// Package cloudtest plays the APIs of an OpenStack cluster for tests: Keystone, Nova, Neutron,
// Glance and Placement, as far as regiond uses them. What is asserted with it is what regiond asks
// for; that the real services understand that is for end-to-end tests.
package cloudtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Item of a collection, as JSON.
type Item = map[string]any

// Cloud is a server of all APIs, under /identity, /compute, /network, /image and /placement.
type Cloud struct {
	URL string

	mu          sync.Mutex
	next        int
	collections map[string]*collection
	tokens      map[string]string // to the user's name
	files       map[string][]byte // of images
	allocations map[string][]string
	writes      []string
	corrupt     bool
	chunked     bool
	exhausted   bool
	// refuse answers requests with a status, by "METHOD /path" prefixes.
	refuse map[string]int
}

// collection of things at a path.
type collection struct {
	plural, singular string // singular is empty if single things are not wrapped
	key              string // id or uuid
	created          int    // status of a creation
	given            Item   // what the server itself chooses
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

// Add puts a thing into a collection and returns its id.
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

// Items of a collection.
func (c *Cloud) Items(path string) []Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.collections[path].items)
}

// Writes are the requests that changed something, but logins, since the last call.
func (c *Cloud) Writes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.writes
	c.writes = nil
	return w
}

// Refuse answers requests that begin with "METHOD /path" with a status from now on; 0 ends that.
func (c *Cloud) Refuse(prefix string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse[prefix] = status
}

// Given is what the service itself chooses for things that are created in a collection.
func (c *Cloud) Given(path string, i Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collections[path].given = i
}

// Corrupt makes images come back with other bytes than they were uploaded with.
func (c *Cloud) Corrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corrupt = true
}

// Chunked says whether the image that was uploaded last came in chunks of unknown number (RFC 9112, section 7.1).
func (c *Cloud) Chunked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chunked
}

// Exhaust the networks that tenants can have: only those of which the request says where they are can be made.
func (c *Cloud) Exhaust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exhausted = true
}

// Allocate makes a consumer hold resources of a provider.
func (c *Cloud) Allocate(provider, consumer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocations[provider] = append(c.allocations[provider], consumer)
}

// ServeHTTP plays the APIs.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for prefix, status := range c.refuse {
		if status != 0 && strings.HasPrefix(r.Method+" "+r.URL.Path, prefix) {
			http.Error(w, `{"error": {"message": "refused by the test"}}`, status)
			return
		}
	}
	if r.URL.Path == "/identity/v3/auth/tokens" {
		c.auth(w, r)
		return
	}
	user, known := c.tokens[r.Header.Get("X-Auth-Token")]
	if !known {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	if user != "admin" {
		http.Error(w, user+" is not the administrator", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.writes = append(c.writes, r.Method+" "+r.URL.Path)
	}
	switch p := r.URL.Path; {
	case strings.HasSuffix(p, "/allocations") && strings.HasPrefix(p, "/placement/resource_providers/"):
		c.listAllocations(w, strings.Split(p, "/")[3])
	case strings.HasPrefix(p, "/placement/allocations/"):
		for provider, all := range c.allocations {
			c.allocations[provider] = slices.DeleteFunc(all, func(s string) bool { return s == strings.Split(p, "/")[3] })
		}
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(p, "/file") && strings.HasPrefix(p, "/image/"):
		c.file(w, r, strings.Split(p, "/")[4])
	case p == "/identity/v3/role_assignments":
		c.roleAssignments(w, r.URL.Query())
	case strings.Contains(p, "/roles") && strings.Contains(p, "/users/"):
		c.assignments(w, r)
	case strings.HasPrefix(p, "/compute/v2.1/servers/") && p != "/compute/v2.1/servers/detail":
		c.one(w, r, c.collections["/compute/v2.1/servers/detail"], strings.TrimPrefix(p, "/compute/v2.1/servers/"))
	default:
		c.resource(w, r)
	}
}

func (c *Cloud) resource(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if to, ok := c.collections[path]; ok {
		switch r.Method {
		case http.MethodGet:
			c.list(w, r, to)
		case http.MethodPost:
			i := read(r, to.singular)
			if c.exhausted && to.plural == "networks" && i["provider:network_type"] == nil {
				http.Error(w, "No tenant network is available for allocation.", http.StatusServiceUnavailable)
				return
			}
			maps.Copy(i, to.given)
			c.add(to, i)
			write(w, to.created, wrap(to.singular, shown(i)))
		}
		return
	}
	at := strings.LastIndex(path, "/")
	if to, ok := c.collections[path[:at]]; ok {
		c.one(w, r, to, path[at+1:])
		return
	}
	http.NotFound(w, r)
}

func (c *Cloud) list(w http.ResponseWriter, r *http.Request, of *collection) {
	all := []Item{}
	for _, i := range of.items {
		fits := true
		for name, values := range r.URL.Query() {
			switch name {
			case "tag":
				tags, _ := i["tags"].([]any)
				fits = fits && slices.Contains(tags, any(values[0]))
			case "host", "name", "domain_id", "description", "binary", "network_id":
				fits = fits && i[name] == values[0]
			case "name__startswith":
				s, _ := i["name"].(string)
				fits = fits && strings.HasPrefix(s, values[0])
			}
		}
		if fits {
			all = append(all, shown(i))
		}
	}
	write(w, http.StatusOK, Item{of.plural: all})
}

func (c *Cloud) one(w http.ResponseWriter, r *http.Request, of *collection, id string) {
	at := slices.IndexFunc(of.items, func(i Item) bool { return i[of.key] == id })
	if at < 0 {
		http.NotFound(w, r)
		return
	}
	switch r.Method {
	case http.MethodGet:
		write(w, http.StatusOK, wrap(of.singular, shown(of.items[at])))
	case http.MethodPut, http.MethodPatch:
		change := read(r, of.singular)
		maps.Copy(of.items[at], change)
		write(w, http.StatusOK, wrap(of.singular, shown(of.items[at])))
	case http.MethodDelete:
		if of.plural == "resource_providers" && len(c.allocations[id]) > 0 {
			http.Error(w, "has allocations", http.StatusConflict)
			return
		}
		of.items = slices.Delete(of.items, at, at+1)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (c *Cloud) auth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		if _, ok := c.tokens[r.Header.Get("X-Subject-Token")]; !ok {
			http.NotFound(w, r)
		}
		return
	}
	var in struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct{ Name, Password string }
				}
			}
			Scope struct {
				Project struct{ Name string }
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	user := in.Auth.Identity.Password.User
	project := slices.IndexFunc(c.collections["/identity/v3/projects"].items, func(i Item) bool { return i["name"] == in.Auth.Scope.Project.Name })
	if project < 0 || !slices.ContainsFunc(c.collections["/identity/v3/users"].items, func(i Item) bool {
		return i["name"] == user.Name &&
			i["password"] == user.Password
	}) {
		http.Error(w, `{"error": {"message": "The request you have made requires authentication."}}`, http.StatusUnauthorized)
		return
	}
	c.next++
	token := fmt.Sprintf("token-%d", c.next)
	c.tokens[token] = user.Name
	w.Header().Set("X-Subject-Token", token)
	write(w, http.StatusCreated, Item{"token": Item{"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"project": Item{"id": c.collections["/identity/v3/projects"].items[project]["id"], "name": in.Auth.Scope.Project.Name}}})
}

// assignments are kept on the user, by project.
func (c *Cloud) assignments(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // identity v3 projects P users U roles [R]
	project, user := parts[3], parts[5]
	users, roles := c.collections["/identity/v3/users"].items, c.collections["/identity/v3/roles"].items
	at := slices.IndexFunc(users, func(i Item) bool { return i["id"] == user })
	if at < 0 {
		http.NotFound(w, r)
		return
	}
	given, _ := users[at]["roles/"+project].([]string)
	if r.Method == http.MethodPut {
		users[at]["roles/"+project] = append(given, parts[7])
		w.WriteHeader(http.StatusNoContent)
		return
	}
	all := []Item{}
	for _, role := range roles {
		if id, _ := role["id"].(string); slices.Contains(given, id) {
			all = append(all, role)
		}
	}
	write(w, http.StatusOK, Item{"roles": all})
}

func (c *Cloud) roleAssignments(w http.ResponseWriter, query url.Values) {
	role, project, all := query.Get("role.id"), query.Get("scope.project.id"), []Item{}
	for _, u := range c.collections["/identity/v3/users"].items {
		if given, _ := u["roles/"+project].([]string); slices.Contains(given, role) {
			all = append(all, Item{"role": Item{"id": role}, "user": Item{"id": u["id"]}, "scope": Item{"project": Item{"id": project}}})
		}
	}
	write(w, http.StatusOK, Item{"role_assignments": all})
}

func (c *Cloud) listAllocations(w http.ResponseWriter, provider string) {
	if !slices.ContainsFunc(c.collections["/placement/resource_providers"].items, func(i Item) bool { return i["uuid"] == provider }) {
		http.Error(w, "no such provider", http.StatusNotFound)
		return
	}
	all := Item{}
	for _, consumer := range c.allocations[provider] {
		all[consumer] = Item{"resources": Item{"VCPU": 1}}
	}
	write(w, http.StatusOK, Item{"allocations": all, "resource_provider_generation": 1})
}

func (c *Cloud) file(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodPut {
		c.chunked = slices.Equal(r.TransferEncoding, []string{"chunked"})
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.files[id] = b
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b := slices.Clone(c.files[id])
	if c.corrupt && len(b) > 0 {
		b[len(b)/2] ^= 1
	}
	_, _ = w.Write(b) // the client went away
}

// shown is a thing without its password.
func shown(i Item) Item {
	s := maps.Clone(i)
	delete(s, "password")
	return s
}

func wrap(singular string, i Item) Item {
	if singular == "" {
		return i
	}
	return Item{singular: i}
}

func read(r *http.Request, singular string) Item {
	i := Item{}
	if json.NewDecoder(r.Body).Decode(&i) != nil {
		return Item{}
	}
	if inner, ok := i[singular].(map[string]any); ok {
		return inner
	}
	return i
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client went away
}
