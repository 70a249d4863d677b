package cloudtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

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
