package bmc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"regiond.dev/regiond/region"
)

// Session is something with an open session to a BMC.
type Session interface {
	// Close ends the session. It is not used afterwards.
	Close(ctx context.Context) error
}

// Target is a BMC, how it is spoken to, and the credentials for it.
type Target struct {
	Address  netip.AddrPort
	Protocol region.BMCProtocol
	Username string
	Password string
	// Key is the BMC's own key beside its users' passwords (IPMI's K_G); empty for most BMCs.
	Key string
}

// String leaves the password out.
func (t Target) String() string { return t.Username + "@" + t.Address.String() }

// GoString leaves the password out.
func (t Target) GoString() string { return fmt.Sprintf("bmc.Target{%s}", t) }

// Pool keeps one session object for each BMC. BMCs have as few as four session slots, and every leaked
// or doubled session takes one until it times out. The object also remembers what was learned of the
// BMC (cipher suite, refused credentials), so it lives as long as the credentials do.
type Pool[S Session] struct {
	open func(Target) (S, error)
	salt [32]byte

	mu     sync.Mutex
	closed bool
	byAddr map[netip.AddrPort]entry[S]
}

type entry[S Session] struct {
	credentials [sha256.Size]byte
	session     S
}

// NewPool is a pool that makes session objects by open, which must not block.
func NewPool[S Session](open func(Target) (S, error)) *Pool[S] {
	p := &Pool[S]{open: open, byAddr: map[netip.AddrPort]entry[S]{}}
	// The salt keeps the hashes in memory from being of use to anyone. crypto/rand.Read never fails.
	if _, err := rand.Read(p.salt[:]); err != nil {
		panic(err)
	}
	return p
}

// Get is the session object for a BMC. New credentials replace the old object, which is closed.
func (p *Pool[S]) Get(ctx context.Context, t Target) (S, error) {
	t.Address = netip.AddrPortFrom(t.Address.Addr().Unmap(), t.Address.Port())
	credentials := p.hash(t)

	p.mu.Lock()
	var none S
	if p.closed {
		p.mu.Unlock()
		return none, &Error{Policy: Retry, Reason: region.ReasonBMCSessionsClosed, Address: t.Address, Detail: "the session pool is closed"}
	}
	old, known := p.byAddr[t.Address]
	if known && old.credentials == credentials {
		p.mu.Unlock()
		return old.session, nil
	}
	s, err := p.open(t)
	if err == nil {
		p.byAddr[t.Address] = entry[S]{credentials, s}
	} else {
		delete(p.byAddr, t.Address)
	}
	p.mu.Unlock()

	if known {
		// The old credentials are replaced: their session must not linger. That the BMC does not answer in
		// it says nothing about the new ones.
		_ = old.session.Close(ctx)
	}
	return s, err
}

// Forget closes and forgets the session object of a BMC. Refused credentials are tried again afterwards.
func (p *Pool[S]) Forget(ctx context.Context, address netip.AddrPort) error {
	address = netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
	p.mu.Lock()
	e, ok := p.byAddr[address]
	delete(p.byAddr, address)
	p.mu.Unlock()
	if !ok {
		return nil
	}
	return e.session.Close(ctx)
}

// Close ends all sessions, side by side, for each may wait for a silent BMC. Get fails afterwards.
func (p *Pool[S]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	all := p.byAddr
	p.byAddr = nil
	p.mu.Unlock()

	errs := make([]error, len(all))
	var wg sync.WaitGroup
	i := 0
	for _, e := range all {
		at := i
		wg.Go(func() { errs[at] = e.session.Close(ctx) })
		i++
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (p *Pool[S]) hash(t Target) [sha256.Size]byte {
	h := sha256.New()
	h.Write(p.salt[:])
	fmt.Fprintf(h, "%s:%d:%s:%d:%s:%s", t.Protocol, len(t.Username), t.Username, len(t.Password), t.Password, t.Key)
	return [sha256.Size]byte(h.Sum(nil))
}
