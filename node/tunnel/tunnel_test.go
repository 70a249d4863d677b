package tunnel

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/region"
)

func addresses(texts ...string) []netip.Addr { return parse(texts) }

func TestChoose(t *testing.T) {
	now := time.Unix(0, 0)
	ring := addresses("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6")
	for name, tc := range map[string]struct {
		local   string
		blocked []netip.Addr
		others  []netip.Addr
		after   time.Duration
		want    []netip.Addr
	}{
		"the next ones":         {"10.0.0.1", nil, ring, 0, ring[:3]},
		"next time, others":     {"10.0.0.1", nil, ring, Every, addresses("10.0.0.5", "10.0.0.6", "10.0.0.2")},
		"from the middle":       {"10.0.0.35", nil, ring, 0, addresses("10.0.0.2", "10.0.0.3", "10.0.0.4")},
		"beginning in the ring": {"10.0.0.4", nil, slices.Delete(slices.Clone(ring), 2, 3), 0, addresses("10.0.0.5", "10.0.0.6", "10.0.0.2")},
		"fewer than that":       {"10.0.0.1", nil, ring[:2], Every, addresses("10.0.0.3", "10.0.0.2")},
		"blocked ones each time": {"10.0.0.1", addresses("10.0.0.6", "10.0.0.2", "10.9.9.9"), ring, 0,
			addresses("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.6")},
	} {
		got := choose(netip.MustParseAddr(tc.local), tc.others, tc.blocked, now.Add(tc.after))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// TestThousandHosts: in each period, each of a thousand hosts is tried by three others and no more,
// and within a week each has tried all.
func TestThousandHosts(t *testing.T) {
	const hosts = 1000
	var all []netip.Addr
	for i := range hosts {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	others := func(i int) []netip.Addr { return slices.Delete(slices.Clone(all), i, i+1) }
	tried := map[netip.Addr]int{}
	for i, local := range all {
		for _, a := range choose(local, others(i), nil, time.Unix(1e9, 0)) {
			tried[a]++
		}
	}
	for a, n := range tried {
		if n != atOnce {
			t.Errorf("%s: tried by %d others at once, want %d", a, n, atOnce)
		}
	}
	seen := map[netip.Addr]bool{}
	for at := time.Unix(1e9, 0); len(seen) < hosts-1; at = at.Add(Every) {
		for _, a := range choose(all[17], others(17), nil, at) {
			seen[a] = true
		}
		if took := at.Sub(time.Unix(1e9, 0)); took > 7*24*time.Hour {
			t.Fatalf("after %s, %d of %d others were tried", took, len(seen), hosts-1)
		}
	}
}

func TestJudge(t *testing.T) {
	others := addresses("10.0.0.2", "10.0.0.3", "10.0.0.4")
	for name, tc := range map[string]struct {
		before []netip.Addr
		found  map[netip.Addr]outcome
		want   []string
	}{
		"nothing tried":                 {nil, nil, nil},
		"pass":                          {nil, map[netip.Addr]outcome{others[0]: passes}, nil},
		"stopped":                       {nil, map[netip.Addr]outcome{others[1]: stopped, others[0]: stopped}, []string{"10.0.0.2", "10.0.0.3"}},
		"silent says nothing":           {nil, map[netip.Addr]outcome{others[0]: silent}, nil},
		"stopped before and silent now": {others[:1], map[netip.Addr]outcome{others[0]: silent}, []string{"10.0.0.2"}},
		"stopped before and passes now": {others[:1], map[netip.Addr]outcome{others[0]: passes}, nil},
		"stopped before and no end now": {addresses("10.0.0.9"), nil, nil},
	} {
		if got := judge(others, tc.before, tc.found); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	var many []netip.Addr
	found := map[netip.Addr]outcome{}
	for i := range 40 {
		many = append(many, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		found[many[i]] = stopped
	}
	if got := judge(many, nil, found); len(got) != region.MaxBlockedTunnels {
		t.Errorf("got %d of 40 that are blocked, want no more than %d: the API server takes no longer list", len(got), region.MaxBlockedTunnels)
	}
}

func TestSize(t *testing.T) {
	for name, tc := range map[string]struct {
		conf string
		want int
		err  string
	}{
		"as rendered":        {"[DEFAULT]\nuse_stderr = true\nglobal_physnet_mtu = 9000\n\n[agent]\n", 9000, ""},
		"of another section": {"[DEFAULT]\n[agent]\nglobal_physnet_mtu = 9000\n", 0, ""},
		"commented":          {"[DEFAULT]\n# global_physnet_mtu = 9000\n", 0, ""},
		"not a number":       {"[DEFAULT]\nglobal_physnet_mtu = jumbo\n", 0, "global_physnet_mtu = jumbo is not from 576 to 65535"},
		"too large":          {"[DEFAULT]\nglobal_physnet_mtu = 70000\n", 0, "is not from 576 to 65535"},
	} {
		root := t.TempDir()
		write(t, root, tc.conf)
		got, err := Prober{Root: root}.size()
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got %d, %v, want %d and an error with %q", name, got, err, tc.want, tc.err)
		}
	}
	if got, err := (Prober{Root: t.TempDir()}).size(); got != 0 || err != nil {
		t.Errorf("without the file: got %d, %v, want 0", got, err)
	}
}

func write(t *testing.T, root, conf string) {
	t.Helper()
	path := filepath.Join(root, neutron)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(conf), 0o640); err != nil {
		t.Fatal(err)
	}
}

// serve plays Open vSwitch's database: it sends an answer to whoever asks.
func serve(t *testing.T, answer string) (address string) {
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
			if _, err := bufio.NewReader(conn).ReadBytes(']'); err == nil {
				fmt.Fprint(conn, answer)
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// port is a row of a tunnel's port, as the database of Open vSwitch 3.5 gives it.
func port(local, remote string) string {
	return `{"options":["map",[["df_default","true"],["egress_pkt_mark","0"],["in_key","flow"],["local_ip","` + local +
		`"],["out_key","flow"],["remote_ip","` + remote + `"]]]}`
}

func TestEnds(t *testing.T) {
	const question = `{"id":"echo","method":"echo","params":[]}`
	rows := func(all ...string) string {
		return `{"error":null,"id":0,"result":[{"rows":[` + strings.Join(all, ",") + `]}]}`
	}
	for name, tc := range map[string]struct {
		answer string
		local  string
		others []netip.Addr
		err    string
	}{
		"none": {rows(), "invalid IP", nil, ""},
		"two, one of them twice": {question + rows(port("10.0.0.1", "10.0.0.3"), port("10.0.0.1", "10.0.0.2"), port("10.0.0.1", "10.0.0.3")), "10.0.0.1",
			addresses("10.0.0.2", "10.0.0.3"), ""},
		"a port of all tunnels": {rows(port("10.0.0.1", "flow")), "10.0.0.1", nil, ""},
		"by IPv6":               {rows(port("fd00::1", "fd00::2")), "invalid IP", nil, ""},
		"refused":               {`{"error":null,"id":0,"result":[{"error":"unknown database"}]}`, "invalid IP", nil, "unknown database"},
		"cut off":               {`{"error":null,"id":0,"res`, "invalid IP", nil, "open vSwitch's database"},
	} {
		local, others, err := ends(t.Context(), serve(t, tc.answer))
		if local.String() != tc.local || !reflect.DeepEqual(others, tc.others) || (err == nil) != (tc.err == "") ||
			err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got %s, %v, %v, want %s, %v and an error with %q", name, local, others, err, tc.local, tc.others, tc.err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if local, others, err := ends(t.Context(), l.Addr().String()); local.IsValid() || others != nil || err != nil {
		t.Errorf("nobody listens: got %s, %v, %v, want nothing", local, others, err)
	}
}
