package server_test

import (
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

func TestLifecycle(t *testing.T) {
	ctx := t.Context()
	t.Run("undisturbed", func(t *testing.T) {
		w := newWorld(t)
		c := w.controller()
		steps := w.run(ctx, 60, always(c), nil, isReady)
		s := w.server(ctx)
		if w.writes != 1 || s.Status.Phase != region.PhaseReady || s.Status.Netboot.Attempts != 0 || s.Status.Installation.Image != "trixie-1" || s.Status.Installation.Disk != "D1" {
			t.Errorf("%d writes, status %+v", w.writes, s.Status)
		}
		for _, kind := range []string{region.ConditionBMCReachable, region.ConditionInspected, region.ConditionInstalled, region.ConditionReady} {
			if !meta.IsStatusConditionTrue(s.Status.Conditions, kind) {
				t.Errorf("%s is not True", kind)
			}
		}
		t.Logf("ready after %d steps", steps)
		// A ready server is left alone.
		version := s.ResourceVersion
		w.run(ctx, 100, always(c), nil, func(s *region.Server) bool { return w.now.Sub(now) > 8*time.Minute })
		if s := w.server(ctx); s.ResourceVersion != version {
			t.Errorf("the status of a ready server was written again: %+v", s.Status)
		}
	})
	t.Run("killed and started again at every step", func(t *testing.T) {
		w := newWorld(t)
		w.run(ctx, 80, w.controller, nil, isJoined)
		if isReady(w.server(ctx)) {
			t.Error("a host was called Ready by a process that never heard it")
		}
		w.run(ctx, 80, always(w.controller()), nil, isReady)
		if w.writes != 1 {
			t.Errorf("%d image writes, want 1", w.writes)
		}
	})
	t.Run("killed between journal and effect", func(t *testing.T) {
		w := newWorld(t)
		// The attempt is in the status, and the machine is off.
		s := w.server(ctx)
		s.Status.Netboot = &region.NetbootStatus{Requested: &metav1.Time{Time: w.now}, Attempts: 1}
		if err := w.api.Status().Update(ctx, s); err != nil {
			t.Fatal(err)
		}
		w.run(ctx, 80, w.controller, nil, isJoined)
		w.run(ctx, 80, always(w.controller()), nil, isReady)
	})
	t.Run("power cut at every step once", func(t *testing.T) {
		base := newWorld(t)
		steps := base.run(ctx, 60, always(base.controller()), nil, isReady)
		for at := range steps {
			w := newWorld(t)
			w.run(ctx, 200, always(w.controller()), func(step int) {
				if step == at {
					w.cut()
				}
			}, isReady)
			if w.writes > 2 {
				t.Errorf("cut at step %d: %d image writes", at, w.writes)
			}
		}
	})
	t.Run("status wiped at every step once", func(t *testing.T) {
		base := newWorld(t)
		steps := base.run(ctx, 60, always(base.controller()), nil, isReady)
		for at := range steps + 1 {
			w := newWorld(t)
			whole := false
			wipe := func(step int) {
				w.obey(ctx)
				whole = whole || w.whole
				if whole && !w.whole {
					t.Errorf("wiped at step %d: a finished installation was overwritten", at)
				}
				if step == at {
					s := w.server(ctx)
					s.Status = region.ServerStatus{}
					if err := w.api.Status().Update(ctx, s); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.run(ctx, 200, always(w.controller()), wipe, func(s *region.Server) bool { return isReady(s) && w.now.Sub(now) > time.Duration(at+2)*5*time.Second })
			s := w.server(ctx)
			if s.Status.Inventory == nil || s.Status.BMC == nil || s.Status.BMC.SystemUUID != machineUUID || s.Status.Power != region.PowerOn || s.Status.Phase != region.PhaseReady {
				t.Errorf("wiped at step %d: status was not filled again: %+v", at, s.Status)
			}
		}
	})
	t.Run("all at random", func(t *testing.T) {
		for seed := range uint64(8) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			c, calm := w.controller(), false
			w.run(ctx, 1000, func() *server.Controller {
				if !calm && r.IntN(4) == 0 {
					c = w.controller()
				}
				return c
			}, func(step int) {
				if calm = step > 150; calm {
					w.silent = false
					w.obey(ctx)
					if joined := w.server(ctx).Status.Phase == region.PhaseNotReady; joined && w.power == region.PowerOff {
						w.power = region.PowerOn // an operator: regiond leaves a host off that was in service
						w.boot()
					}
					return
				}
				w.silent = r.IntN(5) == 0
				if r.IntN(12) == 0 {
					w.cut()
				}
				if r.IntN(12) == 0 {
					s := w.server(ctx)
					s.Status = region.ServerStatus{}
					if err := w.api.Status().Update(ctx, s); err != nil {
						t.Fatal(err)
					}
				}
			}, func(s *region.Server) bool { return isReady(s) && w.now.Sub(now) > 160*5*time.Second })
		}
	})
}

func TestWrongPassword(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	w.password = "other"
	failed := func(s *region.Server) bool { return s.Status.Phase == region.PhaseFailed }
	w.run(ctx, 10, w.controller, nil, failed)
	w.run(ctx, 400, w.controller, nil, func(*region.Server) bool { return w.now.Sub(now) > 25*time.Minute })
	if w.asked != 1 {
		t.Errorf("the wrong password was tried %d times: the BMC would lock the user out", w.asked)
	}
	c := meta.FindStatusCondition(w.server(ctx).Status.Conditions, region.ConditionBMCReachable)
	if c.Reason != "AuthenticationFailed" || !strings.Contains(c.Message, user+"@10.98.0.11:623") {
		t.Errorf("condition does not name user and address: %+v", c)
	}
	secret := &corev1.Secret{}
	if err := w.api.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: "bmc-lab"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["password"] = []byte("other")
	if err := w.api.Update(ctx, secret); err != nil {
		t.Fatal(err)
	}
	w.run(ctx, 60, always(w.controller()), nil, isReady)
}

// A refused password is tried once an hour, also by a process that starts again and again: the
// account on the BMC may be corrected.
func TestRefusedCredentialsAreTriedAtLongIntervals(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	w.password = "other"
	w.run(ctx, 2000, w.controller, nil, func(*region.Server) bool { return w.now.Sub(now) > 150*time.Minute })
	if w.asked != 3 {
		t.Errorf("the wrong password was tried %d times in 150 minutes, want 3", w.asked)
	}
	w.password = pass
	w.run(ctx, 1000, always(w.controller()), nil, isReady)
}

func TestSilentBMC(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	w.silent = true
	c := w.controller()
	w.run(ctx, 100, always(c), nil, func(*region.Server) bool { return w.now.Sub(now) > 5*time.Minute })
	if r := meta.FindStatusCondition(w.server(ctx).Status.Conditions, region.ConditionBMCReachable); r.Status != "False" || r.Reason != "Unreachable" {
		t.Errorf("condition %+v", r)
	}
	w.silent = false
	w.run(ctx, 200, always(c), nil, isReady)
	w.silent = true
	c = w.controller()
	end := w.now.Add(10 * time.Minute)
	w.run(ctx, 200, always(c), nil, func(s *region.Server) bool { return w.now.After(end) })
	s := w.server(ctx)
	if !isReady(s) || meta.IsStatusConditionTrue(s.Status.Conditions, region.ConditionBMCReachable) {
		t.Errorf("a ready server must stay ready while only its BMC is silent: %+v", s.Status.Conditions)
	}
}

// A machine that never netboots is tried again with growing intervals, and says what to look at.
func TestNetbootNeverSeen(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	w.dead = true
	c := w.controller()
	w.run(ctx, 2000, always(c), nil, func(s *region.Server) bool {
		if r := meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady); r != nil && r.Reason == region.ReasonPowerLost {
			t.Errorf("at %s regiond itself switched it off: %s", w.now, r.Message)
		}
		return s.Status.Netboot != nil && s.Status.Netboot.Attempts == 4
	})
	if took := w.now.Sub(now); took < 25*time.Minute || took > 40*time.Minute {
		t.Errorf("fourth attempt after %s", took)
	}
	w.dead = false
	w.run(ctx, 2000, always(c), nil, isReady)
}

func TestRemoval(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	if err := w.api.Delete(ctx, w.server(ctx)); err != nil {
		t.Fatal(err)
	}
	w.reconcile(ctx, c)
	for _, o := range []client.ObjectList{&region.ServerList{}, &region.HostList{}, &coordinationv1.LeaseList{}} {
		if err := w.api.List(ctx, o); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(o); n != 0 {
			t.Errorf("%d objects left in %T", n, o)
		}
	}
	var secrets corev1.SecretList
	if err := w.api.List(ctx, &secrets); err != nil {
		t.Fatal(err)
	}
	for _, left := range secrets.Items {
		// The credentials are the operator's; the record of its key goes with the server, by its owner reference.
		if left.Name != server.CredentialsSecret("lab") && left.Name != hostkey.Name("s1") {
			t.Errorf("Secret %s is left", left.Name)
		}
	}
	w.reconcile(ctx, c) // of what is gone
}

func TestRetirement(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	retire := func(retired bool) {
		s := w.server(ctx)
		before := s.DeepCopy()
		s.Spec.Retired = retired
		if err := w.api.Patch(ctx, s, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	retire(true)
	w.run(ctx, 60, always(c), nil, func(s *region.Server) bool { return s.Status.Phase == region.PhaseRetired })
	for _, o := range []client.ObjectList{&region.HostList{}, &coordinationv1.LeaseList{}} {
		if err := w.api.List(ctx, o); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(o); n != 0 {
			t.Errorf("%d objects left in %T", n, o)
		}
	}
	end := w.now.Add(time.Hour)
	w.run(ctx, 1000, always(c), nil, func(s *region.Server) bool { return w.now.After(end) })
	if s := w.server(ctx); s.Status.Power != region.PowerOff || w.writes != 1 {
		t.Errorf("power %s, %d image writes: a retired server was touched", s.Status.Power, w.writes)
	}
	// Someone who changes his mind gets the same installation back.
	retire(false)
	w.run(ctx, 100, always(c), nil, isReady)
	if w.writes != 1 {
		t.Errorf("%d image writes", w.writes)
	}
}

func TestDuplicates(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	twin := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s2", UID: "twin"}, Spec: region.ServerSpec{BMC: region.BMCEndpoint{Address: "10.98.0.12", Credentials: "lab"}}}
	if err := w.api.Create(ctx, twin); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "s2"}}); err != nil {
			t.Fatal(err)
		}
		w.reconcile(ctx, c)
	}
	for _, name := range []string{"s1", "s2"} {
		s := &region.Server{}
		if err := w.api.Get(ctx, client.ObjectKey{Name: name}, s); err != nil {
			t.Fatal(err)
		}
		if s.Status.Phase != region.PhaseFailed || meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady).Reason != "DuplicateIdentity" {
			t.Errorf("%s: %+v", name, s.Status)
		}
	}
	mac, _ := net.ParseMAC(machineMAC)
	if ticket, err := w.enroll.Netboot(ctx, enrollment.Machine{MAC: mac, UUID: machineUUID}); ticket != nil || err != nil {
		t.Errorf("a machine that is two servers was given a ticket (%v)", err)
	}
	if err := w.api.Get(ctx, client.ObjectKey{Name: "s2"}, twin); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(ctx, twin); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "s2"}}); err != nil {
		t.Fatal(err)
	}
	w.run(ctx, 10, always(c), nil, isReady)
}
