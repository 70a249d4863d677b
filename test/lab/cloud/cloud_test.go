package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"regiond.dev/regiond/images/guest"
)

// fake is as much of OpenStack's APIs as guests need. Servers are ACTIVE when they were seen twice.
type fake struct {
	url string

	mu      sync.Mutex
	made    []string // POSTs, by path
	images  []map[string]any
	nets    []map[string]any
	subnets []map[string]any
	groups  []map[string]any
	ports   []map[string]any
	servers []map[string]any
	seen    map[string]int
	fault   string // of the next servers
	console map[string]string
	down    string // a node whose service is down
	busy    int    // consoles that fail before one is read
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body := map[string]any{}
	if b, err := io.ReadAll(r.Body); err == nil && len(b) > 0 && strings.Contains(r.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(b, &body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if r.Method == http.MethodPost {
		f.made = append(f.made, r.URL.Path)
	}
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // the client hung up
	}
	// create adds an object of one kind and answers with it.
	create := func(kind string, list *[]map[string]any, more map[string]any) {
		o, ok := body[kind].(map[string]any)
		if !ok {
			o = body
		}
		for k, v := range more {
			o[k] = v
		}
		o["id"] = fmt.Sprintf("%s-%d", kind, len(*list)+1)
		*list = append(*list, o)
		switch kind {
		case "image":
			answer(http.StatusCreated, o)
		case "server":
			answer(http.StatusAccepted, map[string]any{kind: o})
		default:
			answer(http.StatusCreated, map[string]any{kind: o})
		}
	}
	endpoints := func(kind, path string) map[string]any {
		return map[string]any{"type": kind, "name": kind, "endpoints": []any{map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": f.url + path}}}
	}
	id := filepath.Base(r.URL.Path)
	switch key := r.Method + " " + r.URL.Path; {
	case key == "GET /v3/":
		answer(http.StatusOK, map[string]any{"version": map[string]any{"id": "v3.14", "status": "stable", "links": []any{map[string]any{"rel": "self", "href": f.url + "/v3/"}}}})
	case key == "POST /v3/auth/tokens":
		w.Header().Set("X-Subject-Token", "token")
		answer(http.StatusCreated, map[string]any{"token": map[string]any{"expires_at": "2099-01-01T00:00:00.000000Z",
			"catalog": []any{endpoints("compute", "/nova/v2.1"), endpoints("network", "/neutron"), endpoints("image", "/glance")}}})
	case key == "GET /neutron/" || key == "GET /glance/":
		answer(http.StatusOK, map[string]any{"versions": []any{map[string]any{"id": "v2.0", "status": "CURRENT"}}})
	case key == "GET /glance/v2/images":
		answer(http.StatusOK, map[string]any{"images": f.images})
	case key == "POST /glance/v2/images":
		create("image", &f.images, map[string]any{"status": "queued"})
	case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/file"):
		f.images[0]["status"] = "active"
		w.WriteHeader(http.StatusNoContent)
	case key == "POST /nova/v2.1/flavors":
		answer(http.StatusOK, map[string]any{"flavor": map[string]any{"id": flavorName}})
	case key == "GET /neutron/v2.0/networks":
		answer(http.StatusOK, map[string]any{"networks": f.nets})
	case key == "POST /neutron/v2.0/networks":
		create("network", &f.nets, nil)
	case key == "GET /neutron/v2.0/subnets":
		answer(http.StatusOK, map[string]any{"subnets": f.subnets})
	case key == "POST /neutron/v2.0/subnets":
		create("subnet", &f.subnets, nil)
	case key == "GET /neutron/v2.0/security-groups":
		answer(http.StatusOK, map[string]any{"security_groups": f.groups})
	case key == "POST /neutron/v2.0/security-groups":
		create("security_group", &f.groups, nil)
	case key == "POST /neutron/v2.0/security-group-rules":
		answer(http.StatusConflict, map[string]any{})
	case key == "GET /neutron/v2.0/ports" && r.URL.Query().Get("device_owner") == "network:dhcp":
		// The agent is at it first: no port, then one that is not ready.
		f.seen["dhcp"]++
		states := [][]any{{}, {map[string]any{"id": "dhcp-1", "status": "BUILD"}}, {map[string]any{"id": "dhcp-1", "status": "ACTIVE"}}}
		answer(http.StatusOK, map[string]any{"ports": states[min(f.seen["dhcp"], len(states))-1]})
	case key == "GET /neutron/v2.0/ports":
		answer(http.StatusOK, map[string]any{"ports": f.ports})
	case key == "POST /neutron/v2.0/ports":
		create("port", &f.ports, map[string]any{"fixed_ips": []any{map[string]any{"ip_address": fmt.Sprintf("10.101.0.%d", 10+len(f.ports))}}})
	case strings.HasPrefix(key, "DELETE /neutron/v2.0/ports/"):
		f.ports = slices.DeleteFunc(f.ports, func(p map[string]any) bool { return p["id"] == id })
		w.WriteHeader(http.StatusNoContent)
	case key == "GET /nova/v2.1/os-services":
		var list []any
		for _, n := range []string{"n1", "n2", "n3"} {
			state := "up"
			if n == f.down {
				state = "down"
			}
			list = append(list, map[string]any{"binary": "nova-compute", "host": n, "state": state, "status": "enabled", "id": n})
		}
		answer(http.StatusOK, map[string]any{"services": list})
	case key == "GET /nova/v2.1/servers/detail":
		for _, s := range f.servers {
			if f.seen[s["name"].(string)]++; f.seen[s["name"].(string)] > 1 && s["status"] == "BUILD" {
				s["status"], s["OS-EXT-STS:task_state"] = "ACTIVE", nil
			}
		}
		answer(http.StatusOK, map[string]any{"servers": f.servers})
	case key == "POST /nova/v2.1/servers":
		if f.seen["dhcp"] < 3 {
			http.Error(w, "a guest was asked for before its network's DHCP was served", http.StatusTeapot)
			return
		}
		node := body["server"].(map[string]any)["hypervisor_hostname"]
		more := map[string]any{"status": "BUILD", "OS-EXT-STS:task_state": "spawning", "OS-EXT-SRV-ATTR:host": node}
		if f.fault != "" {
			more["status"], more["fault"] = "ERROR", map[string]any{"message": f.fault}
		}
		create("server", &f.servers, more)
	case strings.HasPrefix(key, "DELETE /nova/v2.1/servers/"):
		f.servers = slices.DeleteFunc(f.servers, func(s map[string]any) bool { return s["id"] == id })
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(key, "/action") && f.busy > 0:
		f.busy--
		http.Error(w, "timed out waiting for a reply to message", http.StatusInternalServerError)
	case strings.HasSuffix(key, "/action"):
		answer(http.StatusOK, map[string]any{"output": f.console[filepath.Base(filepath.Dir(r.URL.Path))]})
	default:
		http.Error(w, key, http.StatusNotImplemented)
	}
}

func open(t *testing.T) (*fake, *Cloud, *[]string) {
	t.Helper()
	none := []map[string]any{}
	f := &fake{seen: map[string]int{}, console: map[string]string{}, images: none, nets: none, subnets: none, groups: none, ports: none, servers: none}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	disk := filepath.Join(t.TempDir(), "guest.raw")
	if err := os.WriteFile(disk, []byte("disk"), 0o600); err != nil {
		t.Fatal(err)
	}
	var lines []string
	c, err := Open(t.Context(), Config{URL: s.URL, Password: "p", Region: "RegionOne", Dial: (&net.Dialer{}).DialContext, PhysicalNetwork: "physnet1",
		Guest: guest.Image{Path: disk, Digest: strings.Repeat("a", 64)}, Report: func(f string, a ...any) { lines = append(lines, fmt.Sprintf(f, a...)) }})
	if err != nil {
		t.Fatal(err)
	}
	c.poll = time.Millisecond
	return f, c, &lines
}

// Two guests are made on different nodes that are up, each told to ping the other; made again, nothing is.
func TestCreate(t *testing.T) {
	f, c, lines := open(t)
	f.down = "n1"
	for range 2 {
		guests, err := c.Create(t.Context(), []string{"vm1", "vm2"}, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(guests) != 2 || guests[0].Node != "n2" || guests[1].Node != "n3" || guests[0].Status != "ACTIVE" ||
			!slices.Equal(guests[0].Peers, []Peer{{"vm2", guests[1].Address}}) || !slices.Equal(guests[1].Peers, []Peer{{"vm1", guests[0].Address}}) {
			t.Errorf("guests %+v", guests)
		}
		if len(f.images) != 1 || len(f.nets) != 1 || len(f.subnets) != 1 || len(f.groups) != 1 || len(f.ports) != 2 || len(f.servers) != 2 {
			t.Errorf("made: %v", f.made)
		}
	}
	if !slices.ContainsFunc(*lines, func(l string) bool { return strings.Contains(l, "vm1: ACTIVE on n2, its address is 10.101.0.10") }) {
		t.Errorf("reported: %q", *lines)
	}
	// A third goes to the node that has none, if that is up.
	f.down = ""
	guests, err := c.Create(t.Context(), []string{"vm3"}, "")
	if err != nil || guests[0].Node != "n1" || len(guests[0].Peers) != 2 {
		t.Errorf("%+v, %v", guests, err)
	}
	if _, err := c.Create(t.Context(), []string{"vm4"}, "n9"); err == nil || !strings.Contains(err.Error(), `want "n9" of 3 compute services`) {
		t.Errorf("on a node that is not there: %v", err)
	}
	if err := c.Delete(t.Context(), []string{"vm1", "never"}); err != nil {
		t.Error(err)
	}
	if len(f.servers) != 2 || len(f.ports) != 2 {
		t.Errorf("after delete: %d servers, %d ports", len(f.servers), len(f.ports))
	}
}

// What nova says of a guest that it could not start is what the user reads.
func TestFault(t *testing.T) {
	f, c, _ := open(t)
	f.fault = "No valid host was found."
	if _, err := c.Create(t.Context(), []string{"vm1"}, ""); err == nil || !strings.Contains(err.Error(), "guest vm1: nova says: No valid host was found.") {
		t.Errorf("%v", err)
	}
}

func TestPing(t *testing.T) {
	f, c, _ := open(t)
	if _, err := c.Create(t.Context(), []string{"vm1", "vm2"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), []string{"vm3"}, ""); err != nil {
		t.Fatal(err)
	}
	id := f.servers[0]["id"].(string)
	f.mu.Lock()
	f.console[id] = "GUEST-UP\nGUEST-PING-FAILED 10.101.0.11\nGUEST-PING-OK 10.101.0.111\n" // another address, with the same beginning
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx, "vm1", "vm2"); err == nil || !strings.Contains(err.Error(), "GUEST-PING-FAILED 10.101.0.11") {
		t.Errorf("not pinged: %v", err)
	}
	f.mu.Lock()
	f.console[id] += "GUEST-PING-OK 10.101.0.11\r\n"
	f.busy = 1 // a compute host that is too slow once ends nothing
	f.mu.Unlock()
	if err := c.Ping(t.Context(), "vm1", "vm2"); err != nil {
		t.Error(err)
	}
	for to, want := range map[string]string{
		"vm3": "vm1 was not told to ping vm3, which was made later: `regiond lab vm ping vm3 vm1`",
		"vm9": `there is no guest "vm9"; there are vm1, vm2, vm3`,
	} {
		if err := c.Ping(t.Context(), "vm1", to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestUserData(t *testing.T) {
	b, err := userData("vm1", []Peer{{"vm2", "10.0.0.2"}})
	if s := string(b); err != nil || !strings.HasPrefix(s, "#!ipxe\necho GUEST-NAME vm1\n") || strings.Count(s, "#!ipxe") != 1 || !strings.Contains(s, "ping --count 1 --quiet 10.0.0.2 ") {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := userData("vm1", nil); err != nil || string(b) != "#!ipxe\necho GUEST-NAME vm1\n" {
		t.Errorf("%q, %v", b, err)
	}
}
