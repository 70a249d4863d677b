package ipmi_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/ipmi"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

func TestSessionsAreClosed(t *testing.T) {
	s := bmctest.Start(t)
	c := config(s.Address)
	for range 10 { // the BMC has four slots
		b := driver(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.Power(ctx)
		must(t, err)
		cancel()
		must(t, b.Close(ctx)) // with a context that is done
		_, err = b.Power(t.Context())
		check(t, err, bmc.Retry, region.ReasonBMCSessionsClosed)
	}
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	c.IdleTimeout = 50 * time.Millisecond
	b := driver(t, c)
	_, err := b.Power(t.Context())
	must(t, err)
	bmctest.Eventually(t, "an idle session is closed", func() bool { return s.Sessions() == 0 })
	_, err = b.Power(t.Context())
	must(t, err)
}

func TestSessionTableFull(t *testing.T) {
	s := bmctest.Start(t)
	var all []*ipmi.BMC
	for range 4 {
		b := driver(t, config(s.Address))
		_, err := b.Power(t.Context())
		must(t, err)
		all = append(all, b)
	}
	b := driver(t, config(s.Address))
	_, err := b.Power(t.Context())
	check(t, err, bmc.Retry, region.ReasonSessionsExhausted)
	must(t, all[0].Close(t.Context()))
	_, err = b.Power(t.Context())
	must(t, err)
}

func TestCommandsTakeTurnsWithPauses(t *testing.T) {
	s := bmctest.Start(t)
	c := config(s.Address)
	c.CommandInterval = 20 * time.Millisecond
	b := driver(t, c)
	_, err := b.Power(t.Context())
	must(t, err)
	start := time.Now()
	errs := make(chan error)
	for range 10 {
		go func() { _, err := b.Power(t.Context()); errs <- err }()
	}
	for range 10 {
		must(t, <-errs)
	}
	if d := time.Since(start); d < 10*c.CommandInterval {
		t.Errorf("ten commands took %s", d)
	}
}

func TestPool(t *testing.T) {
	s := bmctest.Start(t)
	pool := bmc.NewPool(func(target bmc.Target) (*ipmi.BMC, error) {
		c := config(target.Address)
		c.Target = target
		return ipmi.New(c)
	})
	ctx := t.Context()
	good := bmc.Target{Address: s.Address, Username: bmctest.Username, Password: bmctest.Password}
	bad := good
	bad.Password = "wrong"
	first, err := pool.Get(ctx, good)
	must(t, err)
	_, err = first.Power(ctx)
	must(t, err)
	if again, err := pool.Get(ctx, good); err != nil || again != first {
		t.Errorf("another object for the same target: %v", err)
	}
	refused, err := pool.Get(ctx, bad)
	must(t, err)
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions of the replaced credentials are left", n)
	}
	_, err = refused.Power(ctx)
	check(t, err, bmc.Terminal, region.ReasonAuthenticationFailed)
	must(t, pool.Forget(ctx, s.Address))
	third, err := pool.Get(ctx, good)
	must(t, err)
	_, err = third.Power(ctx)
	must(t, err)
	must(t, pool.Close(ctx))
	_, err = pool.Get(ctx, good)
	check(t, err, bmc.Retry, region.ReasonBMCSessionsClosed)
	_, err = bmc.NewPool(func(target bmc.Target) (*ipmi.BMC, error) {
		return ipmi.New(ipmi.Config{Target: target})
	}).Get(ctx, bmc.Target{Address: s.Address, Password: strings.Repeat("x", 30)})
	check(t, err, bmc.Terminal, region.ReasonCredentialsInvalid)
}

func TestPingAndScan(t *testing.T) {
	a, b, silent := bmctest.Start(t), bmctest.Start(t), bmctest.Start(t)
	silent.Network.DropIn(func([]byte) bool { return true })
	p, err := bmc.Ping(t.Context(), a.Address)
	must(t, err)
	if p.Address != a.Address || !p.IPMI20 {
		t.Errorf("ping: %+v", p)
	}
	b.Network.DropIn(func(p []byte) bool { return p[3] == 0x07 }) // answers the ASF ping only
	if p, err = bmc.Ping(t.Context(), b.Address); err != nil || p.IPMI20 {
		t.Errorf("ASF ping: %+v, %v", p, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = bmc.Ping(ctx, silent.Address)
	check(t, err, bmc.Retry, region.ReasonNoAnswer)
	gone := silent.Address
	silent.Stop()
	_, err = bmc.Ping(t.Context(), gone)
	check(t, err, bmc.Retry, region.ReasonUnreachable)

	found, err := bmc.Scan(t.Context(), []netip.AddrPort{b.Address, gone, a.Address, a.Address}, bmc.ScanConfig{Wait: 200 * time.Millisecond})
	must(t, err)
	var got []netip.AddrPort
	for _, f := range found {
		got = append(got, f.Address)
	}
	want := []netip.AddrPort{a.Address, b.Address}
	slices.SortFunc(want, netip.AddrPort.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if n := a.Network.Count(bmctest.OpenSession) + b.Network.Count(bmctest.OpenSession); n != 0 {
		t.Errorf("the search opened %d sessions", n)
	}
}
