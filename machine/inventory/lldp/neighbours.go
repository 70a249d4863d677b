package lldp

import (
	"context"
	"sync"
	"time"

	"regiond.dev/regiond/machine/inventory"
)

// Interval is how often stations announce themselves (msgTxInterval, IEEE 802.1AB-2016 section 9.2.5.7). Who wants
// to hear them has to listen for longer.
const Interval = 30 * time.Second

// Neighbours listens on interfaces while other work goes on, on each until a neighbour was heard. The zero value is
// ready for use.
type Neighbours struct {
	// listen is Listen; tests have another.
	listen func(ctx context.Context, name string) (*inventory.LLDPNeighbour, error)

	mu        sync.Mutex
	listening map[string]bool
	heard     map[string]inventory.LLDPNeighbour
}

// Listen begins to listen on an interface, unless that goes on already or a neighbour was heard. It ends with the
// context at the latest. An interface that fails, as when its link goes away, is listened on again after a while.
func (n *Neighbours) Listen(ctx context.Context, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, heard := n.heard[name]; heard || n.listening[name] {
		return
	}
	if n.listening == nil {
		n.listening, n.heard = map[string]bool{}, map[string]inventory.LLDPNeighbour{}
	}
	n.listening[name] = true
	listen := n.listen
	if listen == nil {
		listen = Listen
	}
	go func() {
		neighbour := until(ctx, name, listen)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.listening, name)
		if neighbour != nil {
			n.heard[name] = *neighbour
		}
	}()
}

// again is how long an interface that failed is left alone.
const again = 5 * time.Second

// until listens until a neighbour was heard or the context ends.
func until(ctx context.Context, name string, listen func(context.Context, string) (*inventory.LLDPNeighbour, error)) *inventory.LLDPNeighbour {
	for ctx.Err() == nil {
		neighbour, err := listen(ctx, name)
		if err == nil {
			return neighbour
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	return nil
}

// Of returns the neighbour that was heard on an interface, or nil.
func (n *Neighbours) Of(name string) *inventory.LLDPNeighbour {
	n.mu.Lock()
	defer n.mu.Unlock()
	if neighbour, ok := n.heard[name]; ok {
		return &neighbour
	}
	return nil
}
