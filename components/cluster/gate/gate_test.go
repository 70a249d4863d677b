package gate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cloud/cloudtest"
	"regiond.dev/regiond/components/cluster/gate"
)

const uid = "5e44e100-0000-4000-8000-000000000002"

func target(c *cloudtest.Cloud) gate.Target {
	return gate.Target{UID: uid, Namespace: "openstack-lab", Thorough: true,
		Admin:     cloud.Credentials{URL: c.URL + "/identity", User: "admin", Password: "admin-password", Project: "admin"},
		Placement: c.URL + "/placement/", Glance: c.URL + "/image/", Nova: c.URL + "/compute/v2.1/", Neutron: c.URL + "/network/"}
}

func session(t *testing.T, c *cloudtest.Cloud) *cloud.Session {
	t.Helper()
	s, err := gate.Keystone(t.Context(), target(c))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mark of what probes make.
const mark = "regiond-probe-" + uid

// probes that leave nothing behind, by what they make and where.
var probes = map[string]struct {
	run         func(context.Context, gate.Target, *cloud.Session) error
	collections []string
	left        map[string]cloudtest.Item // by a probe that was killed, by collection
}{
	"placement": {gate.Placement, []string{"/placement/resource_providers"},
		map[string]cloudtest.Item{"/placement/resource_providers": {"name": mark}}},
	"glance": {gate.Glance, []string{"/image/v2/images"}, map[string]cloudtest.Item{"/image/v2/images": {"name": "x", "tags": []any{mark}}}},
	"neutron": {gate.Neutron, []string{"/network/v2.0/networks", "/network/v2.0/ports", pools}, map[string]cloudtest.Item{
		"/network/v2.0/networks": {"name": mark, "description": mark}, pools: pool(mark, mark)}},
}

// pools is where Neutron's subnet pools are.
const pools = "/network/v2.0/subnetpools"

// pool of subnets with what Neutron gives each.
func pool(name, description string) cloudtest.Item {
	return cloudtest.Item{"name": name, "description": description, "default_prefixlen": 28, "min_prefixlen": "8", "max_prefixlen": "32"}
}

// playNeutron chooses what Neutron chooses itself.
func playNeutron(c *cloudtest.Cloud) {
	c.Given("/network/v2.0/ports", cloudtest.Item{"mac_address": "fa:16:3e:00:00:01"})
	c.Given(pools, cloudtest.Item{"min_prefixlen": "8", "max_prefixlen": "32"})
}

func TestProbesCleanUp(t *testing.T) {
	for name, p := range probes {
		t.Run(name, func(t *testing.T) {
			c := cloudtest.New(t)
			playNeutron(c)
			s := session(t, c)
			// What an operator made stays; what a probe that was killed made goes, also when there is more than one.
			for path, left := range p.left {
				c.Add(path, pool("precious", ""))
				c.Add(path, left)
				c.Add(path, left)
			}
			if err := p.run(t.Context(), target(c), s); err != nil {
				t.Fatal(err)
			}
			if len(c.Writes()) == 0 {
				t.Error("nothing was made")
			}
			for _, path := range p.collections {
				for _, i := range c.Items(path) {
					if i["name"] != "precious" {
						t.Errorf("left in %s: %v", path, i)
					}
				}
			}
			for path := range p.left {
				if n := len(c.Items(path)); n != 1 {
					t.Errorf("%d things are in %s, want the operator's", n, path)
				}
			}
		})
	}
}

// What has the name or the description of a probe's, and not both, is somebody's.
func TestNeutronLeavesWhatIsNotTheProbes(t *testing.T) {
	c := cloudtest.New(t)
	playNeutron(c)
	s := session(t, c)
	for _, path := range []string{"/network/v2.0/networks", pools} {
		c.Add(path, pool(mark, "mine"))
		c.Add(path, pool("mine", mark))
	}
	if err := gate.Neutron(t.Context(), target(c), s); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/network/v2.0/networks", pools} {
		if n := len(c.Items(path)); n != 2 {
			t.Errorf("%d things are in %s, want the two that were there", n, path)
		}
	}
}

// A proof that is renewed makes nothing that Neutron tells agents of: each of them would log an error
// when it asks for what is gone.
func TestRenewedProofOfNeutronIsNotHeardOfByAgents(t *testing.T) {
	c := cloudtest.New(t)
	playNeutron(c)
	s, renewed := session(t, c), target(c)
	renewed.Thorough = false
	c.Add(pools, pool(mark, mark))
	if err := gate.Neutron(t.Context(), renewed, s); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Items(pools)); n > 0 {
		t.Errorf("%d subnet pools are left", n)
	}
	w := c.Writes()
	for _, write := range w {
		if !strings.Contains(write, pools) {
			t.Errorf("it did %s, want nothing but subnet pools written", write)
		}
	}
	if len(w) != 3 {
		t.Errorf("it did %v, want an earlier pool deleted, one made and deleted", w)
	}
	c.Refuse("GET "+pools+"/", http.StatusInternalServerError)
	if err := gate.Neutron(t.Context(), renewed, s); err == nil || !strings.Contains(err.Error(), "read a subnet pool") {
		t.Errorf("got %v, want that a subnet pool can't be read", err)
	}
}

func TestProbesFail(t *testing.T) {
	for name, refuse := range map[string]string{"placement": "GET /placement/resource_providers/", "glance": "PUT /image/",
		"neutron": "POST /network/v2.0/ports"} {
		t.Run(name, func(t *testing.T) {
			c := cloudtest.New(t)
			playNeutron(c)
			s := session(t, c)
			c.Refuse(refuse, http.StatusInternalServerError)
			err := probes[name].run(t.Context(), target(c), s)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v", err)
			}
			for _, path := range probes[name].collections {
				if n := len(c.Items(path)); n > 0 {
					t.Errorf("%d left in %s", n, path)
				}
			}
		})
	}
}

// A cluster with flat networks only, or whose VLANs are all in use, has nothing for tenants, and works.
func TestNeutronWithoutTenantNetworks(t *testing.T) {
	c := cloudtest.New(t)
	playNeutron(c)
	s := session(t, c)
	c.Exhaust()
	if err := gate.Neutron(t.Context(), target(c), s); err != nil {
		t.Error(err)
	}
	if n := len(c.Items("/network/v2.0/networks")) + len(c.Items("/network/v2.0/ports")); n > 0 {
		t.Errorf("%d networks and ports are left", n)
	}
	c.Refuse("POST /network/v2.0/networks", http.StatusServiceUnavailable)
	if err := gate.Neutron(t.Context(), target(c), s); err == nil || !strings.Contains(err.Error(), "create a network") {
		t.Errorf("got %v, want that no network can be created", err)
	}
}

// TestGlanceUploadsInChunks: nova-compute does, since it doesn't know how large the image of a guest will be.
func TestGlanceUploadsInChunks(t *testing.T) {
	c := cloudtest.New(t)
	if err := gate.Glance(t.Context(), target(c), session(t, c)); err != nil || !c.Chunked() {
		t.Errorf("got %v, in chunks: %v; want an upload in chunks", err, c.Chunked())
	}
}

// A pause in an upload holds a Glance that serves one request at a time: only a thorough proof makes one.
func TestGlancePausesInThoroughProofs(t *testing.T) {
	c := cloudtest.New(t)
	s, to := session(t, c), target(c)
	to.UploadPause = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := gate.Glance(ctx, to, s); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a thorough proof with a pause of an hour: got %v, want the end of its time", err)
	}
	to.Thorough = false
	ctx, cancel = context.WithTimeout(t.Context(), gate.Timeout)
	defer cancel()
	if err := gate.Glance(ctx, to, s); err != nil || !c.Chunked() {
		t.Errorf("a renewed proof: got %v, in chunks: %v; want an upload in chunks without a pause", err, c.Chunked())
	}
}

func TestGlanceReadsWhatItWrote(t *testing.T) {
	c := cloudtest.New(t)
	s := session(t, c)
	c.Corrupt()
	if err := gate.Glance(t.Context(), target(c), s); err == nil || !strings.Contains(err.Error(), "not the") {
		t.Errorf("error %v", err)
	}
}

func TestHosts(t *testing.T) {
	c := cloudtest.New(t)
	c.Add("/compute/v2.1/os-services", cloudtest.Item{"binary": "nova-compute", "host": "node1", "state": "up", "status": "enabled"})
	c.Add("/compute/v2.1/os-services", cloudtest.Item{"binary": "nova-compute", "host": "node2", "state": "up", "status": "enabled"})
	c.Add("/compute/v2.1/os-services", cloudtest.Item{"binary": "nova-scheduler", "host": "nova-scheduler", "state": "up", "status": "enabled"})
	c.Add("/compute/v2.1/os-hypervisors/detail", cloudtest.Item{"hypervisor_hostname": "node1.example", "cpu_info": "", "hypervisor_version": 1,
		"free_disk_gb": 1, "local_gb": 1,
		"service": cloudtest.Item{"host": "node1", "id": "x"}})
	c.Add("/network/v2.0/agents", cloudtest.Item{"host": "node1", "binary": "neutron-openvswitch-agent", "alive": true})
	c.Add("/network/v2.0/agents", cloudtest.Item{"host": "node1", "binary": "neutron-dhcp-agent", "alive": false})
	hosts, err := gate.Hosts(t.Context(), target(c), session(t, c))
	if err != nil {
		t.Fatal(err)
	}
	one, two := hosts["node1"], hosts["node2"]
	if len(hosts) != 2 || one.Service == nil || !one.Mapped || two.Service == nil || two.Mapped {
		t.Errorf("hosts %+v", hosts)
	}
	if len(one.Agents) != 2 || one.Agents[0].Binary != "neutron-dhcp-agent" || one.Agents[0].Alive || !one.Agents[1].Alive {
		t.Errorf("agents %+v", one.Agents)
	}
}

// memcached answers as one does, until its connection ends. value replaces what was set, if it is not empty.
func memcached(t *testing.T, value string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveMemcached(conn, value)
		}
	}()
	return l.Addr().String()
}

func serveMemcached(conn net.Conn, value string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	kept := map[string]string{}
	for {
		line, err := r.ReadString('\n')
		f := strings.Fields(line)
		if err != nil || len(f) < 2 {
			return
		}
		switch f[0] {
		case "set":
			v, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if kept[f[1]] = strings.TrimSpace(v); value != "" {
				kept[f[1]] = value
			}
			fmt.Fprint(conn, "STORED\r\n")
		case "get":
			fmt.Fprintf(conn, "VALUE %s 0 %d\r\n%s\r\nEND\r\n", f[1], len(kept[f[1]]), kept[f[1]])
		case "delete":
			fmt.Fprint(conn, "DELETED\r\n")
		}
	}
}

func TestMemcached(t *testing.T) {
	if err := gate.Memcached(t.Context(), gate.Target{UID: uid, Memcached: memcached(t, "")}); err != nil {
		t.Error(err)
	}
	if err := gate.Memcached(t.Context(), gate.Target{UID: uid, Memcached: memcached(t, "another value")}); err == nil {
		t.Error("another value was taken for what was set")
	}
}

// What accepts connections and says nothing must not hold a probe longer than its time.
func TestProbesAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	deaf := l.Addr().String()
	to := gate.Target{UID: uid, Memcached: deaf, MariaDB: deaf, RabbitMQ: deaf, VHost: "regiond", Admin: cloud.Credentials{URL: "http://" + deaf,
		User: "admin", Password: "x", Project: "admin"}}
	for name, probe := range map[string]func(context.Context) error{
		"memcached": func(ctx context.Context) error { return gate.Memcached(ctx, to) },
		"mariadb":   func(ctx context.Context) error { return gate.MariaDB(ctx, to) },
		"rabbitmq":  func(ctx context.Context) error { return gate.RabbitMQ(ctx, to) },
		"keystone":  func(ctx context.Context) error { _, err := gate.Keystone(ctx, to); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		begin := time.Now()
		if err := probe(ctx); err == nil {
			t.Errorf("%s: no error", name)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		cancel()
	}
}
