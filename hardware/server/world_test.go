package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
	hostpkg "regiond.dev/regiond/region/host"
)

const (
	machineUUID = "5c1b7a2e-9d04-4f3b-8a61-0e7d3c92b5f4"
	machineMAC  = "52:54:00:00:00:01"
	user, pass  = "admin", "secret"
)

// world is one machine with its BMC, and the clock that both sides live by. Its methods never look at
// what regiond keeps; regiond sees it through BMC, netboot and enroll API only.
type world struct {
	events eventtest.Book
	t      *testing.T
	now    time.Time

	// BMC
	silent   bool
	password string
	asked    int // by whom the credentials were wrong
	once     bool
	power    region.PowerState

	// Machine
	since  time.Time // of the present doing
	doing  string    // "", "pxe", "loading", "writing", "disk"
	ticket *enroll.Ticket
	order  *enroll.Install
	writes int  // image writes begun
	whole  bool // the image is on the disk
	marker *inventory.InstallMarker
	dead   bool // does not netboot at all
	deaf   bool // its system does not shut down

	boots     int
	shutdowns int // asked for
	cuts      int // of the power, by the BMC
	guests    guests

	api    client.Client
	enroll *enrollment.Server
}

func (w *world) Probe(ctx context.Context, a bmc.Target) (region.BMCStatus, region.PowerState, error) {
	p, err := w.Power(ctx, a)
	if err != nil {
		return region.BMCStatus{}, p, err
	}
	return region.BMCStatus{Manufacturer: "QEMU", SystemUUID: machineUUID, SerialNumber: "SN1", FirmwareVersion: "1.0"}, p, nil
}

func (w *world) Power(_ context.Context, a bmc.Target) (region.PowerState, error) {
	if w.silent {
		return region.PowerUnknown, errors.New("no answer")
	}
	if a.Password != w.password {
		w.asked++
		return region.PowerUnknown, &bmc.Error{Policy: bmc.Terminal, Reason: region.ReasonAuthenticationFailed, Address: a.Address, Username: a.Username, Detail: "refused"}
	}
	return w.power, nil
}

func (w *world) SetPower(ctx context.Context, a bmc.Target, s region.PowerState) error {
	if _, err := w.Power(ctx, a); err != nil {
		return err
	}
	if s == region.PowerOff {
		w.cuts++
		w.cut()
		return nil
	}
	if w.power == region.PowerOff {
		w.power = region.PowerOn
		w.boot()
	}
	return nil
}

// ShutDown is obeyed by an installed system, and by nothing else.
func (w *world) ShutDown(ctx context.Context, a bmc.Target) error {
	if _, err := w.Power(ctx, a); err != nil {
		return err
	}
	w.shutdowns++
	if w.doing == "disk" && w.whole && !w.deaf {
		w.cut()
	}
	return nil
}

// guests of the cloud on the machine.
type guests struct {
	w                  *world
	refusal            error
	forgetting         error
	surveys, forgotten int
}

func (g *guests) Vacate(context.Context, string) error {
	g.surveys++
	return g.refusal
}

func (g *guests) Forget(context.Context, string) error {
	if g.w.power != region.PowerOff {
		g.w.t.Error("the old system was forgotten while the machine was on")
	}
	g.forgotten++
	return g.forgetting
}

func (w *world) SetNetworkBoot(ctx context.Context, a bmc.Target, _ inventory.FirmwareMode) error {
	if _, err := w.Power(ctx, a); err != nil {
		return err
	}
	if w.power != region.PowerOff {
		w.t.Error("the one-shot network boot was set with the machine running")
	}
	w.once = true
	return nil
}

func (w *world) Forget(context.Context, netip.AddrPort) error { return nil }

func (w *world) cut() { w.power, w.doing, w.ticket, w.order = region.PowerOff, "", nil, nil }

func (w *world) boot() {
	w.boots++
	w.doing, w.since = "disk", w.now
	if w.once && !w.dead {
		w.doing = "pxe"
	}
	w.once = false
}

// tick lets the machine do what it does by itself, every some seconds.
func (w *world) tick(ctx context.Context) {
	if w.now.Sub(w.since) < 15*time.Second {
		return
	}
	w.since = w.now
	switch w.doing {
	case "pxe":
		mac, _ := net.ParseMAC(machineMAC)
		ticket, err := w.enroll.Netboot(ctx, enrollment.Machine{MAC: mac, UUID: machineUUID, Serial: "SN1", Address: netip.MustParseAddr("10.99.0.100")})
		if err != nil {
			w.t.Fatal(err)
		}
		w.ticket, w.doing = ticket, "loading"
		if ticket == nil {
			w.doing = "disk"
		}
	case "loading":
		var i enroll.Instruction
		w.post(enroll.PathInventory, enroll.InventoryReport{Inventory: w.inventory()}, &i)
		switch {
		case i.Install != nil:
			w.order, w.doing = i.Install, "writing"
			w.writes++
			w.whole, w.marker = false, &inventory.InstallMarker{RegionUID: i.Install.Identity.RegionUID, ServerUID: i.Install.Identity.ServerUID}
			w.post(enroll.PathProgress, enroll.Progress{Stage: "Writing", BytesWritten: 1, BytesTotal: 10}, nil)
		case i.BootDisk:
			w.doing = "disk"
		case i.PowerOff:
			w.cut()
		}
	case "writing":
		w.whole, w.marker.Complete = true, true
		w.marker.Image, w.marker.Installed = w.order.Manifest.Version, w.now.Format(time.RFC3339)
		w.post(enroll.PathProgress, enroll.Progress{Stage: "Installed", BytesWritten: 10, BytesTotal: 10}, nil)
		w.doing = "disk"
	case "disk":
		if !w.whole && !w.dead { // firmware that finds nothing on the disk goes on to the network
			w.doing = "pxe"
			return
		}
		w.agent(ctx)
	}
}

// agent reports as the installed system's agent does, if regiond has made its objects.
func (w *world) agent(ctx context.Context) {
	if !w.whole || w.power != region.PowerOn {
		return
	}
	h := &region.Host{}
	if err := w.api.Get(ctx, client.ObjectKey{Name: "s1"}, h); err != nil {
		return
	}
	if h.Status.BootID == "" {
		h.Status.BootID, h.Status.Inventory = "boot-1", machine()
		h.Status.Conditions = []metav1.Condition{{Type: region.ConditionHealthy, Status: "True", Reason: "Healthy", LastTransitionTime: metav1.NewTime(w.now)}}
		if err := w.api.Status().Update(ctx, h); err != nil {
			w.t.Fatal(err)
		}
	}
	l := &coordinationv1.Lease{}
	if err := w.api.Get(ctx, client.ObjectKey{Namespace: hostpkg.Namespace, Name: "s1"}, l); err != nil {
		return
	}
	seconds := int32(40)
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: w.now}, &seconds
	if err := w.api.Update(ctx, l); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) inventory() inventory.Inventory {
	inv := *machine()
	inv.Disks[0].Marker = w.marker
	inv.Disks[0].Blank = w.marker == nil
	return inv
}

func (w *world) post(path string, in, out any) {
	b, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	r := httptest.NewRequest("POST", path, bytes.NewReader(b))
	r.Header.Set("Authorization", "Bearer "+w.ticket.Token)
	resp := httptest.NewRecorder()
	w.enroll.Handler().ServeHTTP(resp, r)
	if resp.Code/100 != 2 {
		w.t.Errorf("%s: %d %s", path, resp.Code, resp.Body)
		return
	}
	if out != nil {
		if err := json.Unmarshal(resp.Body.Bytes(), out); err != nil {
			w.t.Fatal(err)
		}
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, now: now, password: pass, power: region.PowerOff}
	w.guests.w = w
	w.api = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&region.Server{}, &region.Host{}).
		WithIndex(&region.Server{}, server.IdentityIndex, func(o client.Object) []string { return server.IdentityKeys(o.(*region.Server)) }).
		WithObjects(
			&region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: regionUID}, Spec: region.RegionSpec{Hardware: region.Hardware{Profiles: []region.Profile{{Name: "all"}}}}},
			&region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: serverUID, Generation: 1}, Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.11", Credentials: "lab"}}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "bmc-lab"}, Data: map[string][]byte{"username": []byte(user), "password": []byte(pass)}},
		).Build()
	var err error
	w.enroll, err = enrollment.New(enrollment.Config{Client: w.api, RegionName: "r", URL: "https://10.99.0.1:7443", KubernetesURL: "https://10.99.0.1:6443", CA: testCA(t),
		Image: func() (diskimage.Manifest, string, error) {
			return diskimage.Manifest{Version: "trixie-1"}, "http://10.99.0.1/images/trixie-1", nil
		},
		Events: &w.events, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// controller is regiond after a start.
func (w *world) controller() *server.Controller {
	c := &server.Controller{Client: w.api, Live: w.api, BMCs: w, Guests: &w.guests, RegionName: "r", Cleanup: w.enroll.Cleanup,
		Events: &w.events, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)}
	if err := c.Init(nil); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) server(ctx context.Context) *region.Server {
	s := &region.Server{}
	if err := w.api.Get(ctx, client.ObjectKey{Name: "s1"}, s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) reconcile(ctx context.Context, c *server.Controller) {
	if _, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "s1"}}); err != nil {
		w.t.Fatal(err)
	}
}

// run lets time pass in steps of 5 s until done, and returns how many steps it took.
func (w *world) run(ctx context.Context, most int, c func() *server.Controller, each func(step int), done func(*region.Server) bool) int {
	w.t.Helper()
	for step := range most {
		w.reconcile(ctx, c())
		if done(w.server(ctx)) {
			return step
		}
		if each != nil {
			each(step)
		}
		w.now = w.now.Add(5 * time.Second)
		w.tick(ctx)
	}
	s := w.server(ctx)
	w.t.Fatalf("not done after %d steps: phase %s, power %s, machine %q, conditions %+v", most, s.Status.Phase, w.power, w.doing, s.Status.Conditions)
	return 0
}

func isReady(s *region.Server) bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, region.ConditionReady)
}

// isJoined: the host's agent speaks, and regiond calls it Ready as soon as it hears it.
func isJoined(s *region.Server) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady)
	return c != nil && (c.Reason == region.ReasonNotYetSeen || c.Status == metav1.ConditionTrue)
}

// obey lets an operator do what regiond asks him for: power off what it does not end.
func (w *world) obey(ctx context.Context) {
	c := meta.FindStatusCondition(w.server(ctx).Status.Conditions, region.ConditionReady)
	if c != nil && c.Reason == region.ReasonRunningUnknown {
		w.cut()
	}
}

func always(c *server.Controller) func() *server.Controller {
	return func() *server.Controller { return c }
}
