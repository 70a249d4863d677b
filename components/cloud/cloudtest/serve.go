package cloudtest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

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
