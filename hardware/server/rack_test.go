package server_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
)

var (
	rackHistories = flag.Int("rack.histories", 1000, "random histories of the simulated rack")
	rackSeed      = flag.Uint64("rack.seed", 0, "run only the history of this seed")
)

// rack is a region with a few machines, its own and others', and the clock that all live by. It plays the BMCs and the clouds.
type rack struct {
	rng     *rand.Rand
	now     time.Time
	api     *store
	boxes   []*box
	moved   int             // machines that came with a corrected address
	twin    map[string]bool // a second Server of the machine's BMC is there
	killed  bool            // regiond ends in this reconciliation, between its journal and the effect
	control *server.Controller
	enroll  *enrollment.Server

	// did counts what was done, to see that histories get anywhere.
	did       map[string]int
	history   []string
	violation string
}

// violate notes the first thing that must never happen.
func (r *rack) violate(format string, args ...any) {
	if r.violation == "" {
		r.violation = fmt.Sprintf(format, args...)
	}
}

func newRack(t *testing.T, seed uint64, ca []byte, scheme *runtime.Scheme) *rack {
	t.Helper()
	r := &rack{rng: rand.New(rand.NewPCG(seed, 0)), now: now, twin: map[string]bool{}, did: map[string]int{}}
	r.api = newStore(scheme, func() time.Time { return r.now })
	r.api.put(&region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: regionUID}, Spec: region.RegionSpec{Hardware: region.Hardware{Profiles: []region.Profile{{Name: "all"}}}}})
	r.api.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "bmc-lab"}, Data: map[string][]byte{"username": []byte(user), "password": []byte(pass)}})
	for i := range 2 {
		b := &box{r: r, name: fmt.Sprintf("s%d", i), uuid: fmt.Sprintf("1111111%d-2222-4333-8444-55555555555%d", i, i), serial: fmt.Sprintf("RACK7%d", i),
			mac: net.HardwareAddr{0x52, 0x54, 0, 0, 1, byte(i)}, address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 98, 0, byte(11 + i)}), 623),
			power: region.PowerOff, netFirst: r.rng.IntN(2) == 0, foreign: i > 0 && r.rng.IntN(2) == 0}
		if r.rng.IntN(3) == 0 {
			b.start()
		}
		r.boxes = append(r.boxes, b)
		r.declare(b.name, b)
	}
	var err error
	r.enroll, err = enrollment.New(enrollment.Config{Client: r.api, RegionName: "r", URL: "https://10.99.0.1:7443", KubernetesURL: "https://10.99.0.1:6443", CA: ca,
		Image: func() (diskimage.Manifest, string, error) {
			return diskimage.Manifest{Version: "trixie-1"}, "http://10.99.0.1/images", nil
		},
		Events: &eventtest.Book{}, Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.restart()
	return r
}

// declare makes a Server of a machine's BMC.
func (r *rack) declare(name string, b *box) {
	s := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("server-" + name), Generation: 1, Finalizers: []string{server.Finalizer}},
		Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: b.address.Addr().String(), Port: int32(b.address.Port()), Credentials: "lab"}}}
	if err := r.api.Create(context.Background(), s); err != nil {
		r.violate("%s: %v", name, err)
	}
}

// restart is the end of a process of regiond, and the next one's start.
func (r *rack) restart() {
	r.killed = false
	r.control = &server.Controller{Client: r.api, Live: r.api, BMCs: r, Guests: rackGuests{r}, RegionName: "r", Cleanup: r.enroll.Cleanup,
		Events: &eventtest.Book{}, Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler)}
	if err := r.control.Init(nil); err != nil {
		r.violate("%v", err)
	}
}

func (r *rack) named(name string) *box {
	for _, b := range r.boxes {
		if b.name == name {
			return b
		}
	}
	r.violate("no machine %q", name)
	return r.boxes[0]
}

func (r *rack) profile() region.Profile {
	reg := &region.Region{}
	if err := r.api.Get(context.Background(), client.ObjectKey{Name: "r"}, reg); err != nil {
		r.violate("%v", err)
	}
	return reg.Spec.Hardware.Profiles[0]
}

// spec changes what the operator wants of a machine.
func (r *rack) spec(b *box, change func(*region.ServerSpec)) {
	s := b.server()
	change(&s.Spec)
	s.Generation++
	r.api.put(s)
}

// tick lets time pass: regiond reconciles, and the machines do what they do by themselves.
func (r *rack) tick(ctx context.Context, d time.Duration) {
	for _, b := range r.boxes {
		names := []string{b.name}
		if r.twin[b.name] {
			names = append(names, b.name+"-twin")
		}
		for _, name := range names {
			if _, err := r.control.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
				r.violate("%s: %v", name, err)
			}
		}
	}
	if r.killed {
		r.restart()
	}
	r.now = r.now.Add(d)
	for _, b := range r.boxes {
		b.live(ctx)
	}
}

// event is something that happens to a machine, or to regiond.
type event struct {
	name   string
	weight int
	do     func(ctx context.Context, r *rack, b *box)
}

func (r *rack) soon(most time.Duration) *metav1.Time {
	return &metav1.Time{Time: r.now.Add(time.Duration(r.rng.Int64N(int64(most)))).Truncate(time.Second)}
}

var events = []event{
	{"5 s pass", 30, func(ctx context.Context, r *rack, _ *box) { r.tick(ctx, 5*time.Second) }},
	{"20 s pass", 30, func(ctx context.Context, r *rack, _ *box) { r.tick(ctx, 20*time.Second) }},
	{"3 min pass", 12, func(ctx context.Context, r *rack, _ *box) { r.tick(ctx, 3*time.Minute) }},
	{"15 min pass", 4, func(ctx context.Context, r *rack, _ *box) { r.tick(ctx, 15*time.Minute) }},
	{"its BMC falls silent, or answers again", 4, func(_ context.Context, _ *rack, b *box) { b.silent = !b.silent }},
	{"regiond restarts", 3, func(_ context.Context, r *rack, _ *box) { r.restart() }},
	{"regiond ends between journal and effect", 3, func(ctx context.Context, r *rack, _ *box) { r.killed = true; r.tick(ctx, time.Second) }},
	{"its status is wiped", 3, func(_ context.Context, r *rack, b *box) {
		s := b.server()
		s.Status = region.ServerStatus{}
		r.api.put(s)
	}},
	{"all statuses are wiped and regiond restarts", 1, func(_ context.Context, r *rack, _ *box) {
		for _, b := range r.boxes {
			s := b.server()
			s.Status = region.ServerStatus{}
			r.api.put(s)
		}
		r.restart()
	}},
	{"the profile's disk selector is edited", 2, func(_ context.Context, r *rack, _ *box) {
		r.edit(func(p *region.Profile) { p.RootDisk.SerialNumber = []string{"", "D1", "other"}[r.rng.IntN(3)] })
	}},
	{"the profile's overwrite is edited", 2, func(_ context.Context, r *rack, _ *box) {
		r.edit(func(p *region.Profile) { p.RootDisk.Overwrite = !p.RootDisk.Overwrite })
	}},
	{"somebody powers it on", 3, func(_ context.Context, _ *rack, b *box) {
		if b.power == region.PowerOff {
			b.start()
		}
	}},
	{"somebody powers it off", 4, func(_ context.Context, _ *rack, b *box) { b.cut() }},
	{"it restarts by itself", 4, func(_ context.Context, _ *rack, b *box) {
		if b.power == region.PowerOn {
			b.cut()
			b.start()
		}
	}},
	{"a stranger claims to be it", 4, func(ctx context.Context, r *rack, b *box) {
		r.ask(ctx, b, net.HardwareAddr{0x66, 0, 0, 0, 0, byte(r.rng.IntN(2))})
	}},
	{"its takeover is allowed for a while", 1, func(_ context.Context, r *rack, b *box) {
		r.spec(b, func(s *region.ServerSpec) { s.TakeoverUntil = r.soon(30 * time.Minute) })
	}},
	{"it is retired, or not any more", 1, func(_ context.Context, r *rack, b *box) {
		r.spec(b, func(s *region.ServerSpec) { s.Retired = !s.Retired })
	}},
	{"it is to be installed again", 2, func(_ context.Context, r *rack, b *box) {
		r.spec(b, func(s *region.ServerSpec) { s.ReinstallAfter = r.soon(time.Minute) })
		b.asked = true
	}},
	{"a guest comes or goes", 3, func(_ context.Context, _ *rack, b *box) {
		switch {
		case b.guests > 0:
			b.guests--
		case b.installed() && b.doing == "disk" && !b.vacated:
			b.guests++
		}
	}},
	{"the clock is set", 1, func(_ context.Context, r *rack, _ *box) {
		r.now = r.now.Add(time.Duration(r.rng.IntN(9)-4) * 20 * time.Minute)
	}},
	{"its BMC's address is corrected", 1, func(_ context.Context, r *rack, b *box) { r.correct(b) }},
	{"the BMC addresses of two servers are exchanged", 1, func(ctx context.Context, r *rack, _ *box) { r.exchange(ctx) }},
	{"a second server is declared for it, or removed", 1, func(_ context.Context, r *rack, b *box) {
		if r.twin[b.name] = !r.twin[b.name]; r.twin[b.name] {
			r.declare(b.name+"-twin", b)
			return
		}
		delete(r.api.objects, storeKey(&region.Server{}, client.ObjectKey{Name: b.name + "-twin"}))
	}},
}

func (r *rack) edit(change func(*region.Profile)) {
	reg := &region.Region{}
	if err := r.api.Get(context.Background(), client.ObjectKey{Name: "r"}, reg); err != nil {
		r.violate("%v", err)
	}
	change(&reg.Spec.Hardware.Profiles[0])
	r.api.put(reg)
}

// step is one event of the history. It is noted before it happens.
func (r *rack) step(ctx context.Context) {
	total := 0
	for _, e := range events {
		total += e.weight
	}
	n := r.rng.IntN(total)
	for _, e := range events {
		if n -= e.weight; n < 0 {
			b := r.boxes[r.rng.IntN(len(r.boxes))]
			r.history = append(r.history, fmt.Sprintf("%s %s: %s", r.now.Format(time.TimeOnly), b.name, e.name))
			e.do(ctx, r, b)
			return
		}
	}
}

// TestRack lets random things happen to racks, and looks after each whether something was done that
// must never be done: power ended without consent, a disk written to without evidence, a ticket
// given without a requested boot, a machine touched that two servers are. A failure names its seed,
// and the shortest history that leads to it, since histories end with the first.
func TestRack(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	ca := testCA(t)
	first, last := uint64(1), uint64(*rackHistories)
	if *rackSeed > 0 {
		first, last = *rackSeed, *rackSeed
	}
	const shards = 4
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			did := map[string]int{}
			for seed := first + shard; seed <= last; seed += shards {
				r := newRack(t, seed, ca, scheme)
				for range 80 {
					r.step(t.Context())
					if r.violation != "" {
						t.Fatalf("%s\nhistory of -rack.seed=%d, %d events:\n  %s\n%v", r.violation, seed, len(r.history), strings.Join(r.history, "\n  "), r.boxes)
					}
				}
				for what, n := range r.did {
					did[what] += n
				}
			}
			for _, what := range []string{"ticket", "write", "adoption", "refusal", "shutdown by TakeoverUntil", "shutdown by Retired", "shutdown by ReinstallAfter",
				"shutdown by OwnNetworkBoot", "corrected address in a network boot", "exchanged addresses in a network boot", "cut by TakeoverUntil", "cut by Retired", "cut by OwnNetworkBoot", "replacement"} {
				if did[what] == 0 && *rackSeed == 0 && *rackHistories >= 1000 {
					t.Errorf("no history had a %s: the simulation does not get there; it had %v", what, did)
				}
			}
		})
	}
}

// A hall that comes back after an outage is not powered on all at once.
func TestColdStartIsStaggered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	r := newRack(t, 1, testCA(t), scheme)
	for _, b := range r.boxes {
		b.cut()
	}
	for i := range 38 {
		b := &box{r: r, name: fmt.Sprintf("hall%d", i), uuid: fmt.Sprintf("2222222%d-2222-4333-8444-5555555555%02d", i%10, i), serial: fmt.Sprintf("HALL7%d", i),
			mac: net.HardwareAddr{0x52, 0x54, 0, 0, 2, byte(i)}, address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 98, 1, byte(11 + i)}), 623), power: region.PowerOff}
		r.boxes = append(r.boxes, b)
		r.declare(b.name, b)
	}
	on := func() (n int) { // since the outage
		for _, b := range r.boxes {
			if !b.sign.IsZero() {
				n++
			}
		}
		return n
	}
	for second := range 90 {
		r.tick(t.Context(), time.Second)
		if most := 8 + (second+1)/2 + 1; on() > most {
			t.Fatalf("%d machines were powered on after %d s, want at most %d", on(), second, most)
		}
	}
	if on() != len(r.boxes) || r.violation != "" {
		t.Errorf("%d of %d machines were powered on; %s", on(), len(r.boxes), r.violation)
	}
}
