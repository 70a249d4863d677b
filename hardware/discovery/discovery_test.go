package discovery

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/prometheus/client_golang/prometheus"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
)

const uuid1 = "6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8"

func TestName(t *testing.T) {
	at := netip.MustParseAddrPort("10.98.0.11:623")
	byUUID := Name(region.BMCStatus{SystemUUID: uuid1, SerialNumber: "S1"}, at)
	for what, other := range map[string]string{
		"another address":      Name(region.BMCStatus{SystemUUID: uuid1}, netip.MustParseAddrPort("10.98.0.99:623")),
		"the other byte order": Name(region.BMCStatus{SystemUUID: "3B2A1C6F-5E4D-604F-8192-A3B4C5D6E7F8"}, at),
	} {
		if other != byUUID {
			t.Errorf("%s gives another name: %s, %s", what, other, byUUID)
		}
	}
	names := []string{byUUID, Name(region.BMCStatus{SerialNumber: "S1"}, at), Name(region.BMCStatus{}, at),
		Name(region.BMCStatus{SystemUUID: "00000000-0000-0000-0000-000000000000"}, netip.MustParseAddrPort("10.98.0.11:1623"))}
	if names[2] != "server-10-98-0-11" || names[3] != "server-10-98-0-11-1623" {
		t.Error(names)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 4 {
		t.Errorf("names are not unique: %q", names)
	}
}

func TestTargets(t *testing.T) {
	reg := &region.Region{Spec: region.RegionSpec{Hardware: region.Hardware{
		Servers: []region.StaticServer{{Name: "s", BMC: region.BMCEndpoint{Address: "10.98.0.12"}}},
		Discovery: []region.DiscoveryRange{
			{Range: "10.98.0.10-10.98.0.14", Credentials: "a"}, {Range: "10.98.0.14-10.98.0.15", Credentials: "b"}, {Range: "10.98.0.10-10.98.0.10", Credentials: "b", Port: 1623},
			{Range: "255.255.255.255-255.255.255.255", Credentials: "c"}},
	}}}
	known := []region.Server{{Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.11", Port: 623}}}}
	list, err := targets(reg, known)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range list {
		got = append(got, x.address.String()+"="+x.credentials)
	}
	want := "10.98.0.10:623=a 10.98.0.13:623=a 10.98.0.14:623=a 10.98.0.15:623=b 10.98.0.10:1623=b 255.255.255.255:623=c"
	if strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.2-10.0.0.1", "10.0.0.0-10.9.0.0"} {
		reg.Spec.Hardware.Discovery = []region.DiscoveryRange{{Range: bad}}
		if _, err := targets(reg, nil); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("range %q: %v", bad, err)
		}
	}
}

// lab is a network of BMCs.
type lab struct {
	says   map[string]region.BMCStatus // by address:port
	refuse bool
	logins int
}

func (l *lab) scan(_ context.Context, addresses []netip.AddrPort) ([]netip.AddrPort, error) {
	var found []netip.AddrPort
	for _, a := range addresses {
		if _, ok := l.says[a.String()]; ok {
			found = append(found, a)
		}
	}
	return found, nil
}

func (l *lab) identify(_ context.Context, a bmc.Target) (region.BMCStatus, error) {
	l.logins++
	if l.refuse {
		return region.BMCStatus{}, &bmc.Error{Policy: bmc.Terminal, Reason: region.ReasonAuthenticationFailed}
	}
	b := l.says[a.Address.String()]
	if b.Product == "broken" {
		return b, errors.New("garbage")
	}
	return b, nil
}

func newDiscovery(t *testing.T, l *lab, objects ...client.Object) *Discovery {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects = append(objects,
		&region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: region.RegionSpec{Hardware: region.Hardware{Discovery: []region.DiscoveryRange{{Range: "10.98.0.10-10.98.0.50", Credentials: "lab"}}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "bmc-lab"}, Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")}})
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&region.Server{}).WithObjects(objects...).Build()
	return &Discovery{Client: api, Live: api, RegionName: "r", Scan: l.scan, Identify: l.identify, Events: &eventtest.Book{}, Log: slog.New(slog.DiscardHandler),
		answered: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "x"}, []string{"result"})}
}

func (d *Discovery) run(t *testing.T) map[string]string {
	t.Helper()
	r, err := d.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "r"}})
	if err != nil {
		t.Fatal(err)
	}
	if r.RequeueAfter < Every*8/10 || r.RequeueAfter > Every*12/10 {
		t.Errorf("next search after %s", r.RequeueAfter)
	}
	var list region.ServerList
	if err := d.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, s := range list.Items {
		at[s.Name] = s.Spec.BMC.Address
	}
	return at
}

func TestDiscovery(t *testing.T) {
	l := &lab{says: map[string]region.BMCStatus{
		"10.98.0.11:623": {SystemUUID: uuid1}, "10.98.0.12:623": {SerialNumber: "S2"}, "10.98.0.13:623": {Product: "broken"}, "10.98.0.60:623": {SerialNumber: "outside"},
	}}
	d := newDiscovery(t, l)
	first := d.run(t)
	if len(first) != 2 || first[Name(l.says["10.98.0.11:623"], netip.AddrPort{})] != "10.98.0.11" {
		t.Errorf("%v", first)
	}
	// Nothing is made twice; what misbehaved is tried again, and only that is logged in to.
	l.logins = 0
	if again := d.run(t); len(again) != 2 || l.logins != 1 {
		t.Errorf("%v after %d logins", again, l.logins)
	}
	l.says["10.98.0.13:623"] = region.BMCStatus{SerialNumber: "S3"}
	if third := d.run(t); len(third) != 3 {
		t.Errorf("%v", third)
	}
}

const old, other = "10.98.0.11:623", "10.98.0.20:623"

// known is a server of an earlier search.
func known(label string, identity region.BMCStatus) *region.Server {
	return &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "known", UID: "1", Labels: map[string]string{server.SourceLabel: label}},
		Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.11", Port: 623, Credentials: "lab"}}, Status: region.ServerStatus{BMC: &identity}}
}

func (d *Discovery) address(t *testing.T) *metav1.Condition {
	t.Helper()
	s := &region.Server{}
	if err := d.Client.Get(t.Context(), client.ObjectKey{Name: "known"}, s); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(s.Status.Conditions, region.ConditionBMCAddress)
}

// A server follows its BMC to another address only after the old one was found silent again and
// again, and only if both UUID and serial number agree. Whatever else is found is a condition of
// the server.
func TestDiscoveryFollowsAMovedBMC(t *testing.T) {
	identity := region.BMCStatus{SystemUUID: uuid1, SerialNumber: "S4711"}
	blade := region.BMCStatus{SystemUUID: "c2d90b1e-77a4-4a53-b1f6-52e80d6c3a94", SerialNumber: "S4711"}
	reachable := known(server.SourceDiscovery, identity)
	reachable.Status.Conditions = []metav1.Condition{{Type: region.ConditionBMCReachable, Status: metav1.ConditionTrue, Reason: region.ReasonAnswered}}
	for _, tt := range []struct {
		name    string
		known   *region.Server
		says    map[string]region.BMCStatus
		moves   bool
		reason  string
		servers int
	}{
		{"moved", known(server.SourceDiscovery, identity), map[string]region.BMCStatus{other: identity}, true, region.ReasonBMCMoved, 1},
		{"declared in region.yaml", known(server.SourceRegion, identity), map[string]region.BMCStatus{other: identity}, false, region.ReasonDeclaredElsewhere, 1},
		{"both answer", known(server.SourceDiscovery, identity), map[string]region.BMCStatus{other: identity, old: identity}, false, region.ReasonIdentityConflict, 1},
		{"the old one answers in a session", reachable, map[string]region.BMCStatus{other: identity}, false, region.ReasonIdentityConflict, 1},
		{"two at other addresses", known(server.SourceDiscovery, identity), map[string]region.BMCStatus{other: identity, "10.98.0.21:623": identity}, false, region.ReasonIdentityConflict, 1},
		{"only the UUID is told", known(server.SourceDiscovery, identity), map[string]region.BMCStatus{other: {SystemUUID: uuid1}}, false, region.ReasonIdentityUncertain, 1},
		{"only the serial number is told", known(server.SourceDiscovery, identity), map[string]region.BMCStatus{other: {SerialNumber: "S4711"}}, false, region.ReasonIdentityUncertain, 1},
		{"another blade with the chassis' serial number", known(server.SourceDiscovery, identity), map[string]region.BMCStatus{other: blade}, false, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDiscovery(t, &lab{says: tt.says}, tt.known)
			for search := 1; search <= 5; search++ {
				got := d.run(t)
				want := "10.98.0.11"
				if tt.moves && search >= silentSearches {
					want = "10.98.0.20"
				}
				if got["known"] != want || len(got) != tt.servers {
					t.Errorf("search %d: %v, want known at %s and %d servers", search, got, want, tt.servers)
				}
			}
			c := d.address(t)
			switch {
			case tt.reason == "" && c != nil:
				t.Errorf("condition %+v, want none", c)
			case tt.reason != "" && (c == nil || c.Reason != tt.reason || (c.Status == metav1.ConditionTrue) != tt.moves || !strings.Contains(c.Message, "10.98.0.2")):
				t.Errorf("condition %+v, want %s", c, tt.reason)
			}
		})
	}
}

// One search in which the old BMC answers begins the count again, and what nobody claims any more is taken back.
func TestDiscoveryCountsSilentSearchesInARow(t *testing.T) {
	identity := region.BMCStatus{SystemUUID: uuid1, SerialNumber: "S4711"}
	l := &lab{says: map[string]region.BMCStatus{other: identity}}
	d := newDiscovery(t, l, known(server.SourceDiscovery, identity))
	d.run(t)
	d.run(t)
	if c := d.address(t); c == nil || c.Reason != region.ReasonMovePending || !strings.Contains(c.Message, "2 of the 3") {
		t.Errorf("condition %+v after two searches, want MovePending", c)
	}
	l.says[old] = identity
	d.run(t)
	delete(l.says, old)
	d.run(t)
	if got := d.run(t); got["known"] != "10.98.0.11" {
		t.Errorf("moved to %s although the old BMC answered two searches ago", got["known"])
	}
	delete(l.says, other)
	d.run(t)
	if c := d.address(t); c != nil {
		t.Errorf("condition %+v, want none when no other BMC is there", c)
	}
}

// What a BMC refuses for good, or again and again, is a Server that says so.
func TestBMCThatDoesNotSayWhoItIs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		searches int
	}{
		{"wants a key", &bmc.Error{Policy: bmc.Retry, Reason: region.ReasonBMCKeyRequired}, 1},
		{"starts", &bmc.Error{Policy: bmc.Wait, Reason: region.ReasonBMCInitializing}, silentSearches},
		{"no cipher suite", &bmc.Error{Policy: bmc.Retry, Reason: region.ReasonUnsupportedByBMC}, silentSearches},
	} {
		d := newDiscovery(t, &lab{says: map[string]region.BMCStatus{old: {}}})
		d.Identify = func(context.Context, bmc.Target) (region.BMCStatus, error) { return region.BMCStatus{}, tt.err }
		for search := 1; search <= tt.searches; search++ {
			if got := d.run(t); len(got) != 0 != (search == tt.searches) {
				t.Errorf("%s: %v after search %d, want a server after %d", tt.name, got, search, tt.searches)
			}
		}
	}
}

// A wrong password makes a Server that carries the refusal, and is not tried at every search.
func TestDiscoveryWithWrongPassword(t *testing.T) {
	l := &lab{says: map[string]region.BMCStatus{"10.98.0.11:623": {}}, refuse: true}
	d := newDiscovery(t, l)
	for range 5 {
		if got := d.run(t); len(got) != 1 || got["server-10-98-0-11"] != "10.98.0.11" {
			t.Errorf("%v", got)
		}
	}
	if l.logins != 1 {
		t.Errorf("%d logins with a wrong password", l.logins)
	}
}

func TestDiscoveryWithoutCredentials(t *testing.T) {
	l := &lab{says: map[string]region.BMCStatus{"10.98.0.11:623": {}}}
	d := newDiscovery(t, l)
	if err := d.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "bmc-lab"}}); err != nil {
		t.Fatal(err)
	}
	if got := d.run(t); len(got) != 0 || l.logins != 0 {
		t.Errorf("%v, %d logins", got, l.logins)
	}
}
