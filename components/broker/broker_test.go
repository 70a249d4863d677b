package broker_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"regiond.dev/regiond/components/broker"
)

// api fakes the parts of RabbitMQ's management API that are used.
type api struct {
	mu     sync.Mutex
	users  map[string]map[string]any
	others map[string]map[string]any // permissions and topic permissions, by KIND/VHOST/USER
	writes []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if user, password, _ := r.BasicAuth(); user != "regiond" || password != "secret" {
		http.Error(w, "not the administrator", http.StatusUnauthorized)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/")
	kind, name, single := strings.Cut(path, "/")
	var body map[string]any
	if r.Method != http.MethodGet {
		a.writes = append(a.writes, r.Method+" "+path)
		_ = json.NewDecoder(r.Body).Decode(&body) // null of a DELETE
	}
	switch {
	case !single:
		list := []map[string]any{}
		for key, v := range a.others {
			if strings.HasPrefix(key, kind+"/") {
				list = append(list, v)
			}
		}
		if kind == "users" {
			for _, u := range a.users {
				list = append(list, u)
			}
		}
		_ = json.NewEncoder(w).Encode(list) // the client went away
	case kind == "users" && r.Method == http.MethodDelete:
		delete(a.users, name)
	case kind == "users":
		password, _ := body["password"].(string)
		sum := sha256.Sum256([]byte("salt" + password))
		a.users[name] = map[string]any{"name": name, "password_hash": base64.StdEncoding.EncodeToString(append([]byte("salt"), sum[:]...)),
			"hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []string{body["tags"].(string)}}
	default:
		a.others[path] = body
	}
}

func serve(t *testing.T) (*api, broker.Admin) {
	t.Helper()
	a := &api{users: map[string]map[string]any{"nova": {"name": "nova", "tags": []string{}}}, others: map[string]map[string]any{}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, broker.Admin{Address: strings.TrimPrefix(s.URL, "http://"), User: "regiond", Password: "secret"}
}

func TestEnsure(t *testing.T) {
	api, admin := serve(t)
	n1, n2 := broker.Host("compute-n1", "one", "n1"), broker.Host("compute-n2", "two", "n2")
	if changed, err := admin.Ensure(t.Context(), []broker.User{n1, n2}, nil); err != nil || len(changed) != 2 || len(api.others) != 8 {
		t.Fatalf("got %v %q and %d permissions, want two users with four each", err, changed, len(api.others))
	}
	api.writes = nil
	if changed, err := admin.Ensure(t.Context(), []broker.User{n1, n2}, nil); err != nil || len(changed) > 0 || len(api.writes) > 0 {
		t.Errorf("the second time: got %v %q %q, want nothing written", err, changed, api.writes)
	}
	// A wider permission and a different password are reverted.
	api.others["permissions/nova/compute-n1"]["read"] = ".*"
	n2.Password = "other"
	if _, err := admin.Ensure(t.Context(), []broker.User{n1, n2}, nil); err != nil ||
		!slices.Equal(api.writes, []string{"PUT permissions/nova/compute-n1", "PUT users/compute-n2"}) {
		t.Errorf("got %v %q", err, api.writes)
	}
	api.writes = nil
	if _, err := admin.Ensure(t.Context(), []broker.User{n1}, []string{"compute-n2"}); err != nil || len(api.writes) > 0 {
		t.Errorf("a user to be kept: got %v %q, want nothing written", err, api.writes)
	}
	if _, err := admin.Ensure(t.Context(), []broker.User{n1}, nil); err != nil || !slices.Equal(api.writes, []string{"DELETE users/compute-n2"}) {
		t.Errorf("a host that is gone: got %v %q", err, api.writes)
	}
}

// The services' users, and others that regiond did not create, are neither changed nor adopted.
func TestUsersOfOthersAreLeftAlone(t *testing.T) {
	api, admin := serve(t)
	api.users["compute-n1"] = map[string]any{"name": "compute-n1", "tags": []string{"theirs"}}
	_, err := admin.Ensure(t.Context(), []broker.User{broker.Host("compute-n1", "one", "n1")}, nil)
	if err == nil || !strings.Contains(err.Error(), "compute-n1") || len(api.writes) > 0 {
		t.Errorf("got %v %q, want a refusal that names the user", err, api.writes)
	}
	admin.Password = "guessed"
	if _, err := admin.Ensure(t.Context(), nil, nil); err == nil || strings.Contains(err.Error(), "guessed") {
		t.Errorf("wrong password: got %v, want an error without the password", err)
	}
}

// TestHostReadsItsOwnQueues: the names were observed in a RabbitMQ used by Epoxy's nova-compute and
// Neutron agents.
func TestHostReadsItsOwnQueues(t *testing.T) {
	u := broker.Host("compute-n1", "one", "n1")
	nova, neutron := u.Permissions[0], u.Permissions[1]
	topicsNova, topicsNeutron := u.Topics[0], u.Topics[1]
	for pattern, names := range map[string][2][]string{
		nova.Read: {{"nova", "compute", "compute.n1", "compute_fanout", "compute_fanout_n1:nova-compute:2", "reply_n1:nova-compute:1",
			"compute-alt", "compute-alt.n1", "compute-alt_fanout_n1:nova-compute:3"},
			{"compute.n2", "compute.n11", "compute-alt.n2", "compute-alternative", "compute_fanout_n2:nova-compute:1", "reply_n2:nova-compute:1", "reply_0123456789abcdef", "conductor",
				"conductor.nova-conductor", "scheduler", "scheduler_fanout", "amq.default", ""}},
		nova.Configure: {{"nova", "scheduler_fanout", "compute.n1", "reply_n1:nova-compute:1"},
			{"compute.n2", "conductor", "reply_0123456789abcdef", "conductor_fanout", "notifications.info"}},
		nova.Write: {{"nova", "amq.default", "scheduler_fanout", "compute.n1"}, {"compute.n2", "conductor_fanout", "conductor", "compute_fanout"}},
		neutron.Read: {{"neutron", "dhcp_agent", "dhcp_agent.n1", "dhcp_agent_fanout", "q-agent-notifier-tunnel-update",
			"q-agent-notifier-security_group-update.n1", "neutron-vo-Port-1.10_fanout_n1:neutron-openvswitch-agent:3", "neutron-vo-Port-1.10.n1",
			"reply_n1:neutron-metadata-agent:1"},
			{"q-plugin", "q-reports-plugin", "q-plugin.neutron-api", "dhcp_agent.n2", "reply_n2:neutron-dhcp-agent:1", "neutron-vo-Port-1.10.n2",
				"q-agent-notifier-tunnel-update.n2", "reply_0123456789abcdef"}},
		neutron.Write:       {{"neutron", "amq.default", "dhcp_agent.n1"}, {"dhcp_agent_fanout", "q-plugin_fanout", "dhcp_agent.n2"}},
		topicsNova.Read:     {{"compute", "compute.n1", "compute-alt.n1"}, {"compute.n2", "compute-alt.n2", "#", "compute.*", "*.n1", "conductor", "compute.#"}},
		topicsNova.Write:    {{"conductor", "compute.n2", "compute-alt.n2"}, {"scheduler", "compute"}},
		topicsNeutron.Read:  {{"dhcp_agent", "dhcp_agent.n1", "neutron-vo-Port-1.10.n1"}, {"#", "*.*", "dhcp_agent.n2", "q-plugin", "dhcp_agent.#"}},
		topicsNeutron.Write: {{"q-plugin", "q-reports-plugin"}, {"dhcp_agent", "dhcp_agent.n2", "neutron-vo-Port-1.10"}},
	} {
		r := regexp.MustCompile(pattern)
		for _, name := range names[0] {
			if !r.MatchString(name) {
				t.Errorf("%s does not allow %q", pattern, name)
			}
		}
		for _, name := range names[1] {
			if r.MatchString(name) {
				t.Errorf("%s allows %q", pattern, name)
			}
		}
	}
	// Characters of regular expressions are literal in a host's name.
	if r := regexp.MustCompile(broker.Host("u", "p", "n.1").Permissions[0].Read); r.MatchString("compute.nx1") {
		t.Error("a host's name is used as a pattern")
	}
}
