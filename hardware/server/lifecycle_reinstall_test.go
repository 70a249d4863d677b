package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// reinstall asks for another installation.
func (w *world) reinstall(ctx context.Context, takeoverUntil *metav1.Time) {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	w.agent(ctx)
	s := w.server(ctx)
	before := s.DeepCopy()
	s.Spec.ReinstallAfter, s.Spec.TakeoverUntil = &metav1.Time{Time: w.now}, takeoverUntil
	if err := w.api.Patch(ctx, s, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func TestReinstall(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	w.guests.refusal = errors.New("2 instances are on s1")
	w.reinstall(ctx, nil)
	end := w.now.Add(10 * time.Minute)
	w.run(ctx, 1000, always(c), nil, func(s *region.Server) bool {
		if !isReady(s) || w.power != region.PowerOn || w.shutdowns > 0 {
			t.Fatalf("a host with guests was touched: power %s, %+v", w.power, s.Status.Conditions)
		}
		return w.now.After(end)
	})
	if r := meta.FindStatusCondition(w.server(ctx).Status.Conditions, server.ConditionReinstallable); r == nil || !strings.Contains(r.Message, "2 instances are on s1") {
		t.Errorf("condition %+v", r)
	}
	if n := w.guests.surveys; n < 5 || n > 12 {
		t.Errorf("guests were asked about %d times in 10 minutes", n)
	}
	w.guests.refusal = nil
	w.run(ctx, 100, always(c), nil, func(s *region.Server) bool { return w.writes == 2 && isReady(s) })
	if w.shutdowns != 1 || w.cuts != 0 || w.guests.forgotten != 1 {
		t.Errorf("%d shutdowns, %d cuts, forgotten %d times; want 1, 0, 1", w.shutdowns, w.cuts, w.guests.forgotten)
	}
	end = w.now.Add(time.Hour)
	w.run(ctx, 1000, always(c), nil, func(s *region.Server) bool { return w.now.After(end) })
	if s := w.server(ctx); w.writes != 2 || s.Status.Reinstallation != nil || meta.FindStatusCondition(s.Status.Conditions, server.ConditionReinstallable) != nil {
		t.Errorf("%d image writes, want exactly one more; status %+v", w.writes-1, s.Status)
	}
}

// A cloud that can't forget the old system holds the reinstallation up. That is not an attempt of the machine, which stays off.
func TestReinstallHeldUpByTheCloud(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	before := w.server(ctx).Status.Netboot.Requested
	w.guests.forgetting = errors.New("Nova does not answer")
	w.reinstall(ctx, nil)
	end := w.now.Add(10 * time.Minute)
	w.run(ctx, 1000, always(c), nil, func(*region.Server) bool { return w.now.After(end) })
	s := w.server(ctx)
	if n := s.Status.Netboot; w.power != region.PowerOff || n.Attempts != 0 || !n.Requested.Equal(before) {
		t.Errorf("power %s, record %+v", w.power, n)
	}
	for _, kind := range []string{region.ConditionInstalled, region.ConditionReady} {
		if r := meta.FindStatusCondition(s.Status.Conditions, kind); r.Reason != region.ReasonOldSystemRemains || !strings.Contains(r.Message, "Nova does not answer") {
			t.Errorf("condition %+v", r)
		}
	}
	if n := w.guests.forgotten; n < 5 || n > 11 {
		t.Errorf("the cloud was asked %d times in 10 minutes", n)
	}
	w.guests.forgetting = nil
	w.run(ctx, 100, always(c), nil, func(s *region.Server) bool { return w.writes == 2 && isReady(s) })
}

// The rights of the old system end with the acceptance, and its power is cut only by a consent that says so.
func TestReinstallOfDeafSystem(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	w.deaf = true
	w.reinstall(ctx, nil)
	end := w.now.Add(time.Hour)
	w.run(ctx, 1000, always(c), nil, func(*region.Server) bool { return w.now.After(end) })
	if w.power != region.PowerOn || w.cuts > 0 {
		t.Error("the power of a system that did not shut down was cut without consent")
	}
	r := meta.FindStatusCondition(w.server(ctx).Status.Conditions, region.ConditionReady)
	if r.Reason != region.ReasonShuttingDown || !strings.Contains(r.Message, "spec.takeoverUntil") {
		t.Errorf("condition %+v", r)
	}
	var hosts region.HostList
	if err := w.api.List(ctx, &hosts); err != nil || len(hosts.Items) > 0 {
		t.Errorf("%v, the old system still has its rights: %d hosts", err, len(hosts.Items))
	}
	w.reinstall(ctx, &metav1.Time{Time: w.now.Add(time.Hour)})
	w.run(ctx, 200, always(c), nil, func(s *region.Server) bool { return w.writes == 2 && isReady(s) })
	if w.cuts != 1 {
		t.Errorf("%d cuts", w.cuts)
	}
}

// The time in the marker is the machine's clock's, which may be wrong.
func TestReinstallWhenMarkerIsFromTheFuture(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	w.marker.Installed = "2099-01-01T00:00:00Z"
	w.reinstall(ctx, nil)
	w.run(ctx, 100, always(c), nil, func(s *region.Server) bool { return w.writes == 2 && isReady(s) })
}

// A refused reinstallation leaves the machine off, and says how the old installation is used again.
func TestRefusedReinstallation(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	c := w.controller()
	w.run(ctx, 60, always(c), nil, isReady)
	profile := func(selector region.DiskSelector) {
		r := &region.Region{}
		if err := w.api.Get(ctx, client.ObjectKey{Name: "r"}, r); err != nil {
			t.Fatal(err)
		}
		r.Spec.Hardware.Profiles[0].RootDisk = selector
		if err := w.api.Update(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	profile(region.DiskSelector{SerialNumber: "other"})
	w.reinstall(ctx, nil)
	end := w.now.Add(3 * time.Hour)
	w.run(ctx, 3000, always(c), nil, func(*region.Server) bool { return w.now.After(end) })
	s := w.server(ctx)
	r := meta.FindStatusCondition(s.Status.Conditions, region.ConditionReady)
	if w.power != region.PowerOff || w.boots != 2 || s.Status.Phase != region.PhaseFailed || !strings.Contains(r.Message, "without spec.reinstallAfter") {
		t.Errorf("power %s, %d boots, want off after 2; %+v", w.power, w.boots, r)
	}
	before := s.DeepCopy()
	s.Spec.ReinstallAfter = nil
	if err := w.api.Patch(ctx, s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.run(ctx, 200, always(c), nil, isReady)
	if w.writes != 1 {
		t.Errorf("%d image writes", w.writes)
	}
}
