package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
		return region.BMCStatus{}, fmt.Errorf("no: %w", server.ErrCredentials)
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
	return &Discovery{Client: api, Live: api, RegionName: "r", Scan: l.scan, Identify: l.identify, Log: slog.New(slog.DiscardHandler),
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

func TestDiscoveryFollowsAMovedBMC(t *testing.T) {
	identity := region.BMCStatus{SystemUUID: uuid1}
	known := func(label string) *region.Server {
		return &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "known", UID: "1", Labels: map[string]string{server.SourceLabel: label}},
			Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.11", Port: 623, Credentials: "lab"}}, Status: region.ServerStatus{BMC: &identity}}
	}
	moved := &lab{says: map[string]region.BMCStatus{"10.98.0.20:623": identity}}
	if got := newDiscovery(t, moved, known(server.SourceDiscovery)).run(t); len(got) != 1 || got["known"] != "10.98.0.20" {
		t.Errorf("moved: %v", got)
	}
	if got := newDiscovery(t, moved, known(server.SourceRegion)).run(t); len(got) != 1 || got["known"] != "10.98.0.11" {
		t.Errorf("declared in region.yaml: %v", got)
	}
	both := &lab{says: map[string]region.BMCStatus{"10.98.0.20:623": identity, "10.98.0.11:623": identity}}
	if got := newDiscovery(t, both, known(server.SourceDiscovery)).run(t); len(got) != 1 || got["known"] != "10.98.0.11" {
		t.Errorf("both answer: %v", got)
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
