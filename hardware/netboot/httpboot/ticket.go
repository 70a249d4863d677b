package httpboot

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/cavaliergopher/cpio"

	"regiond.dev/regiond/machine/enroll"
)

// Bounds of tickets.
const (
	ticketTime = 10 * time.Minute
	// ticketReads: once, and again when the transfer broke off.
	ticketReads = 3
	maxTickets  = 4096
)

// tickets that were promised in scripts. They are in memory only: after a restart the machine
// asks for its script again.
type tickets struct {
	now func() time.Time

	mu      sync.Mutex
	byNonce map[string]*promise
}

// promise of a ticket to one address.
type promise struct {
	archive []byte
	mac     string
	address netip.Addr
	expires time.Time
	reads   int
}

func newTickets(now func() time.Time) *tickets {
	return &tickets{now: now, byNonce: make(map[string]*promise)}
}

var errTooManyTickets = errors.New("too many tickets are outstanding: they expire in 10 minutes")

// add a ticket, replacing the machine's earlier one. The nonce has 128 random bits.
func (t *tickets) add(c Client, ticket enroll.Ticket) (string, error) {
	archive, err := ticketArchive(ticket)
	if err != nil {
		return "", err
	}
	var b [16]byte
	rand.Read(b[:]) // never fails, it ends the program instead
	nonce := hex.EncodeToString(b[:])
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, p := range t.byNonce {
		if !now.Before(p.expires) || p.mac == c.MAC.String() {
			delete(t.byNonce, n)
		}
	}
	if len(t.byNonce) >= maxTickets {
		return "", errTooManyTickets
	}
	t.byNonce[nonce] = &promise{archive: archive, mac: c.MAC.String(), address: c.Address, expires: now.Add(ticketTime)}
	return nonce, nil
}

// take reads a ticket, for the address that it was promised to.
func (t *tickets) take(nonce string, from netip.Addr, read bool) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byNonce[nonce]
	if !ok || p.address != from || !t.now().Before(p.expires) {
		return nil, false
	}
	if read {
		if p.reads++; p.reads >= ticketReads {
			delete(t.byNonce, nonce)
		}
	}
	return p.archive, true
}

// ticket sends a ticket. To all but the right machine it does not exist.
func (s *Server) ticket(w http.ResponseWriter, r *http.Request, rt route) {
	archive, ok := s.tickets.take(rt.nonce, peer(r), r.Method == http.MethodGet)
	if !ok {
		s.config.Log.Warn("ticket refused: unknown, used up, expired, or asked for from another address", slog.String("peer", r.RemoteAddr))
		http.Error(w, "no such ticket", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(archive))
}

// ticketArchive is an archive for the kernel to unpack over the root file system of the
// installer (newc, Documentation/driver-api/early-userspace/buffer-format.rst). Only root may
// read the ticket.
func ticketArchive(t enroll.Ticket) ([]byte, error) {
	content, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	name := strings.TrimPrefix(enroll.TicketFile, "/")
	var dirs []string
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		dirs = append([]string{d}, dirs...)
	}
	for _, d := range dirs {
		if err := w.WriteHeader(&cpio.Header{Name: d, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
			return nil, fmt.Errorf("ticket archive: %w", err)
		}
	}
	if err := w.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeReg | 0o600, Size: int64(len(content))}); err != nil {
		return nil, fmt.Errorf("ticket archive: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("ticket archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("ticket archive: %w", err)
	}
	return b.Bytes(), nil
}
