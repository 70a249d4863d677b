package lldp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"regiond.dev/regiond/machine/inventory"
)

// A station that announces itself every 30 s is heard without anybody waiting for it, and an interface that failed is
// listened on again.
func TestNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		n := &Neighbours{listen: func(ctx context.Context, name string) (*inventory.LLDPNeighbour, error) {
			calls[name]++
			if name == "eth1" && calls[name] == 1 {
				return nil, errors.New("network is down")
			}
			select {
			case <-ctx.Done():
				return nil, nil
			case <-time.After(Interval - time.Second):
				return &inventory.LLDPNeighbour{PortID: "of " + name}, nil
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		look := func() {
			for _, name := range []string{"eth0", "eth1"} {
				n.Listen(ctx, name)
			}
			synctest.Wait()
		}
		look()
		if got := n.Of("eth0"); got != nil {
			t.Errorf("heard %+v at once", got)
		}
		<-time.After(10 * time.Second) // of the bubble's clock
		look()
		<-time.After(20 * time.Second)
		if got := n.Of("eth0"); got == nil || got.PortID != "of eth0" {
			t.Errorf("after 30 s eth0 has %+v", got)
		}
		if got := n.Of("eth1"); got != nil {
			t.Errorf("eth1 was listened on for 25 s and has %+v", got)
		}
		<-time.After(10 * time.Second)
		look()
		if got := n.Of("eth1"); got == nil || got.PortID != "of eth1" {
			t.Errorf("after 30 s eth1 has %+v", got)
		}
		if calls["eth0"] != 1 || calls["eth1"] != 2 {
			t.Errorf("listened %v", calls)
		}
	})
}
