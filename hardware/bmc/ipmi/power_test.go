package ipmi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

func TestPower(t *testing.T) {
	s := bmctest.Start(t)
	b := driver(t, config(s.Address))
	ctx := t.Context()
	state := func(want region.PowerState) {
		t.Helper()
		got, err := b.Power(ctx)
		must(t, err)
		if got != want || s.Machine.On() != (want == region.PowerOn) {
			t.Fatalf("BMC says %s, machine on=%v, want %s", got, s.Machine.On(), want)
		}
	}
	state(region.PowerOff)
	must(t, b.SetPower(ctx, bmc.On))
	state(region.PowerOn)
	must(t, b.SetPower(ctx, bmc.On))
	must(t, b.SetPower(ctx, bmc.Cycle))
	state(region.PowerOn)
	must(t, b.SetPower(ctx, bmc.SoftOff))
	state(region.PowerOff)
	must(t, b.SetPower(ctx, bmc.SoftOff))
	must(t, b.SetPower(ctx, bmc.Off))
	must(t, b.SetPower(ctx, bmc.Cycle))
	state(region.PowerOn)
	must(t, b.SetPower(ctx, bmc.Off))
	if got := strings.Join(s.Machine.Actions(), " "); got != "on off on soft on off" {
		t.Errorf("the machine saw %q", got)
	}
	check(t, b.SetPower(ctx, "Explode"), bmc.Terminal, region.ReasonUnsupportedByBMC)
	if n := s.Network.Count(bmctest.OpenSession); n != 1 {
		t.Errorf("%d sessions were opened for one BMC", n)
	}
}

func TestSoftOffFallsBackToHardOff(t *testing.T) {
	s := bmctest.Start(t)
	s.Machine.Set(true)
	s.Machine.IgnoreSoftOff()
	b := driver(t, config(s.Address))
	must(t, b.SetPower(t.Context(), bmc.SoftOff))
	if got := strings.Join(s.Machine.Actions(), " "); got != "soft off" {
		t.Errorf("the machine saw %q", got)
	}
}

// BMCs ignore power-on for a while after the power went off.
func TestPowerCommandWithoutEffectIsRepeated(t *testing.T) {
	s := bmctest.Start(t)
	s.Machine.IgnorePower(2)
	c := config(s.Address)
	c.ControlInterval = 20 * time.Millisecond
	must(t, driver(t, c).SetPower(t.Context(), bmc.On))
	if got := strings.Join(s.Machine.Actions(), " "); got != "on on on" {
		t.Errorf("the machine saw %q", got)
	}
}

func TestRestartWhileWaitingForPower(t *testing.T) {
	s := bmctest.Start(t)
	s.Machine.IgnorePower(1)
	b := driver(t, config(s.Address))
	done := make(chan error)
	go func() { done <- b.SetPower(t.Context(), bmc.On) }()
	bmctest.Eventually(t, "power on was sent", func() bool { return len(s.Machine.Actions()) == 1 })
	s.Restart()
	s.Machine.Set(true) // as by its power button
	must(t, <-done)
}

// A soft power off that got lost must not become a hard one.
func TestLostSoftOffDoesNotCutThePower(t *testing.T) {
	s := bmctest.Start(t)
	s.Machine.Set(true)
	b := driver(t, config(s.Address))
	_, err := b.Power(t.Context())
	must(t, err)
	first := true
	s.Network.DropIn(func([]byte) bool { defer func() { first = false }(); return !first })
	check(t, b.SetPower(t.Context(), bmc.SoftOff), bmc.Retry, region.ReasonNoAnswer)
	if !s.Machine.On() {
		t.Error("the power was cut")
	}
}

func TestSetPowerIsBoundedByContext(t *testing.T) {
	s := bmctest.Start(t)
	s.Machine.IgnorePower(1000)
	b := driver(t, config(s.Address))
	_, err := b.Power(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	check(t, b.SetPower(ctx, bmc.On), bmc.Retry, region.ReasonPowerStateUnchanged)
}
