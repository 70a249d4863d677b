package dhcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Bucket of the leases in the database: address -> Lease in JSON.
const Bucket = "netboot-leases"

// offerTime is how long an offer is kept for a client that does not take it. PXE ROMs wait up to
// 32 s for more offers (PXE 2.1 section 2.2.1).
const offerTime = time.Minute

// errExhausted says that every address is held.
var errExhausted = errors.New("no address is free")

// errProbing says that the client's address is being probed for an earlier DISCOVER of it.
var errProbing = errors.New("address is being probed")

// Pool of addresses. What is in the database survives; offers are kept in memory only.
type Pool struct {
	config Config

	mu       sync.Mutex
	leases   map[netip.Addr]Lease
	byClient map[string]netip.Addr
}

// NewPool reads the leases. Those outside of the present range, and those that cannot be read,
// are removed: their holders are refused at the next renewal and ask again.
func NewPool(c Config) (*Pool, error) {
	p := &Pool{config: c, leases: make(map[netip.Addr]Lease), byClient: make(map[string]netip.Addr)}
	err := c.DB.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(Bucket))
		if err != nil {
			return err
		}
		var stale [][]byte
		err = b.ForEach(func(k, v []byte) error {
			var l Lease
			if err := json.Unmarshal(v, &l); err != nil || l.Address.String() != string(k) {
				c.Log.Error("lease is unreadable, forgetting it", slog.String("key", string(k)), slog.Any("error", err))
				stale = append(stale, k)
				return nil
			}
			if !c.leasable(l.Address) {
				stale = append(stale, k)
				return nil
			}
			p.put(l)
			return nil
		})
		if err != nil {
			return err
		}
		for _, k := range stale {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s of %s: %w", Bucket, c.DB.Path(), err)
	}
	return p, nil
}

// put records a lease in memory. A client has one address; the older record loses its client.
func (p *Pool) put(l Lease) {
	if before, ok := p.leases[l.Address]; ok && p.byClient[before.Client] == l.Address {
		delete(p.byClient, before.Client)
	}
	p.leases[l.Address] = l
	if l.Client != "" {
		p.byClient[l.Client] = l.Address
	}
}

// forget makes an address free.
func (p *Pool) forget(a netip.Addr) {
	if l, ok := p.leases[a]; ok {
		if p.byClient[l.Client] == a {
			delete(p.byClient, l.Client)
		}
		delete(p.leases, a)
	}
}

// Lookup what is known about a request.
func (p *Pool) Lookup(r Request) Leases {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := r.Requested
	if !asked.IsValid() {
		asked = r.ClientAddress
	}
	known := Leases{Asked: p.lease(asked)}
	if a, ok := p.byClient[r.Client]; ok {
		known.Own = p.leases[a]
	}
	return known
}

func (p *Pool) lease(a netip.Addr) Lease {
	if l, ok := p.leases[a]; ok {
		return l
	}
	return Lease{Address: a}
}

// Reserve an address to offer to a client. With probe set it may be in use by a stranger: the
// caller asks, and then calls Offer or Quarantine. The choice is, in this order (RFC 2131 section
// 4.3.1): the address that the client has or had, the one it asks for, a free one, the one that
// was longest out of use.
func (p *Pool) Reserve(client string, wanted netip.Addr, now time.Time) (l Lease, probe bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.byClient[client]; ok {
		l := p.leases[a]
		if l.State == StateProbing && l.held(now) {
			return Lease{}, false, errProbing
		}
		if l.State == StateBound && l.held(now) {
			return l, false, nil // the offer does not shorten the lease it still has
		}
		l.State, l.Expires = StateOffered, now.Add(offerTime)
		p.put(l)
		return l, false, nil
	}
	a, err := p.choose(client, wanted, now)
	if err != nil {
		return Lease{}, false, err
	}
	l = Lease{Address: a, Client: client, State: StateProbing, Expires: now.Add(offerTime)}
	p.put(l)
	return l, true, nil
}

// choose an address for a client that has none. It starts where a hash of the client points to,
// so that clients keep their addresses even over the loss of the database, mostly.
func (p *Pool) choose(client string, wanted netip.Addr, now time.Time) (netip.Addr, error) {
	if p.config.leasable(wanted) && p.leases[wanted].State == StateFree {
		return wanted, nil
	}
	first, last := number(p.config.RangeFirst), number(p.config.RangeLast)
	size := uint64(last) - uint64(first) + 1
	h := fnv.New64a()
	h.Write([]byte(client)) // never fails
	start := h.Sum64() % size
	var oldest Lease
	for i := range size {
		a := address(first + uint32((start+i)%size))
		if !p.config.leasable(a) {
			continue
		}
		l, known := p.leases[a]
		if !known {
			return a, nil
		}
		if !l.held(now) && (!oldest.Address.IsValid() || l.Expires.Before(oldest.Expires)) {
			oldest = l
		}
	}
	if !oldest.Address.IsValid() {
		return netip.Addr{}, errExhausted
	}
	return oldest.Address, nil
}

// Offer turns a probed reservation into an offer.
func (p *Pool) Offer(l Lease, now time.Time) Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.State, l.Expires = StateOffered, now.Add(offerTime)
	p.put(l)
	return l
}

// Apply makes the effect of a reply durable.
func (p *Pool) Apply(client string, r Reply) error {
	switch r.Effect {
	case EffectBind:
		return p.save(Lease{Address: r.Address, Client: client, State: StateBound, Expires: r.Expires})
	case EffectRelease:
		return p.save(Lease{Address: r.Address, Client: client, State: StateReleased, Expires: r.Expires})
	case EffectQuarantine:
		return p.save(Lease{Address: r.Address, State: StateQuarantined, Expires: r.Expires})
	case EffectWithdraw:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.leases[r.Address].State == StateOffered {
			p.forget(r.Address)
		}
	}
	return nil
}

// save a lease, first in the database. Another record of the same client goes.
func (p *Pool) save(l Lease) error {
	v, err := json.Marshal(l)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, moved := p.byClient[l.Client]
	moved = moved && before != l.Address
	err = p.config.DB.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(Bucket))
		if moved {
			if err := b.Delete([]byte(before.String())); err != nil {
				return err
			}
		}
		return b.Put([]byte(l.Address.String()), v)
	})
	if err != nil {
		return fmt.Errorf("write lease of %s: %w", l.Address, err)
	}
	if moved {
		p.forget(before)
	}
	p.put(l)
	return nil
}

// Holder is the station that holds an address now.
func (p *Pool) Holder(a netip.Addr, now time.Time) (net.HardwareAddr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.leases[a]
	if !ok || l.State != StateBound || !l.held(now) {
		return nil, false
	}
	mac, err := net.ParseMAC(l.Client)
	return mac, err == nil // clients named otherwise have no MAC address
}

// Count of the addresses that are leased now.
func (p *Pool) Count(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.leases {
		if l.State == StateBound && l.held(now) {
			n++
		}
	}
	return n
}

// LogValue is for the log lines about a lease.
func (l Lease) LogValue() slog.Value {
	return slog.GroupValue(slog.String("address", l.Address.String()), slog.String("client", l.Client), slog.String("state", string(l.State)))
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}
