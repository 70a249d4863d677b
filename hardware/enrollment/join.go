package enrollment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// peer is who asks for a certificate, proven by a token or by the certificate before.
type peer struct {
	client.Object // the Server, or the Host of a machine that regiond did not install
	// heartbeat is when the peer's host last said that it lives.
	heartbeat func(context.Context) (time.Time, error)
	// ensure makes what the host needs, and gives its rights to the holders.
	ensure func(context.Context, host.Holders) error
}

// joining is the peer whose join token was presented. The token together with the machine's SMBIOS UUID says
// who asks; a source address or MAC address can't be verified across routers. A machine that regiond did not
// install has the token only: the operator carried it there.
func (s *Server) joining(ctx context.Context, bearer, systemUUID string) (peer, *corev1.Secret, error) {
	token, err := s.find(ctx, kindJoin, bearer)
	if err != nil {
		return peer{}, nil, err
	}
	if len(token.Data[keyHostUID]) > 0 {
		h := &region.Host{}
		if err := s.issuedTo(ctx, token, keyHostUID, h); err != nil {
			return peer{}, nil, err
		}
		if end, err := time.Parse(time.RFC3339, string(token.Data[keyExpires])); err != nil || !s.Now().Before(end) {
			return peer{}, nil, refusal(enroll.ReasonTokenUnknown, "the join token of host %s ended at %s; make a new one: regiond host enroll %[1]s",
				h.Name, token.Data[keyExpires])
		}
		return s.enrolled(h), token, nil
	}
	srv := &region.Server{}
	if err := s.issuedTo(ctx, token, keyServerUID, srv); err != nil {
		return peer{}, nil, err
	}
	if bound := string(token.Data[keySystemUUID]); !sameUUID(bound, systemUUID) {
		return peer{}, nil, refusal(enroll.ReasonWrongServer, "the token was issued for server %s with system UUID %s, it came from a machine with %q",
			srv.Name, bound, systemUUID)
	}
	if err := s.inService(srv, issued(token)); err != nil {
		return peer{}, nil, err
	}
	return s.installed(srv), token, nil
}

// inService refuses a server's system that has no rights any more: the server was retired, or is being installed again and
// the system is the one from before, as the time says at which its token was issued.
func (s *Server) inService(srv *region.Server, issued time.Time) error {
	if srv.Spec.Retired {
		return refusal(enroll.ReasonWrongServer, "server %s is retired; to have it back: regiond kubectl patch server %[1]s --type merge -p '{\"spec\":{\"retired\":false}}'", srv.Name)
	}
	if r := server.Reinstallation(srv); r != nil && issued.Before(r.Accepted.Time) {
		return refusal(enroll.ReasonWrongServer, "server %s is being installed again since %s; the system that was on it has no rights any more", srv.Name, stamp(r.Accepted.Time))
	}
	return nil
}

func (s *Server) installed(srv *region.Server) peer {
	return peer{Object: srv,
		heartbeat: func(ctx context.Context) (time.Time, error) {
			facts, err := server.ReadFacts(ctx, s.Client, srv)
			return facts.Heartbeat, err
		},
		ensure: func(ctx context.Context, holders host.Holders) error {
			return host.Ensure(ctx, s.Client, srv, s.profile(ctx, srv), holders)
		},
	}
}

func (s *Server) enrolled(h *region.Host) peer {
	return peer{Object: h,
		heartbeat: func(ctx context.Context) (time.Time, error) { return host.Heartbeat(ctx, s.Client, h) },
		ensure: func(ctx context.Context, holders host.Holders) error {
			return host.EnsureEnrolled(ctx, s.Client, h, holders)
		},
	}
}

// join exchanges a join token for a client certificate, once.
func (s *Server) join(ctx context.Context, r *http.Request, in enroll.JoinRequest) (any, error) {
	p, token, err := s.joining(ctx, bearer(r), in.SystemUUID)
	if err != nil {
		return nil, err
	}
	name := p.GetName()
	log := s.Log.With(slog.String("host", name), slog.String("from", source4(r).String()))
	csr, key, err := parseCSR(in.CSR, name)
	if err != nil {
		return nil, err
	}
	record, err := hostkey.Read(ctx, s.Client, p.Object)
	if err != nil {
		return nil, err
	}
	if err := s.consume(ctx, p, token, key.ID); err != nil {
		return nil, err
	}
	if err := s.recordKey(ctx, p, record, key, hostkey.Key{}); err != nil {
		return nil, err
	}
	response, err := s.admit(ctx, p, csr, key.ID)
	if err != nil {
		return nil, err
	}
	// The installer's job is done for good.
	if err := s.revoke(ctx, kindTicket, name); err != nil {
		return nil, err
	}
	s.metrics.tokens.WithLabelValues(kindJoin, "used").Inc()
	log.Info("host joined: certificate issued", slog.String("user", host.User(name)), slog.String("key", key.ID[:16]))
	return response, nil
}

// admit gives a peer's host the rights of its key, which was recorded, and has its request signed.
func (s *Server) admit(ctx context.Context, p peer, csrPEM []byte, key string) (enroll.JoinResponse, error) {
	if err := s.grant(ctx, p, key); err != nil {
		return enroll.JoinResponse{}, err
	}
	certificate, err := s.sign(ctx, p.Object, csrPEM, key)
	return enroll.JoinResponse{Certificate: certificate}, err
}

// consume marks a token used by a key, before anything is signed. A process that is killed after
// that leaves a token that only the same key can use again, and only until the host has used a
// certificate: its first heartbeat.
func (s *Server) consume(ctx context.Context, p peer, token *corev1.Secret, key string) error {
	used := refusal(enroll.ReasonTokenUsed,
		"the join token of %s was used already; install the server again if its agent lost its certificate", p.GetName())
	if by := string(token.Data[keyUsedBy]); by != "" {
		if by != key {
			return used
		}
		heartbeat, err := p.heartbeat(ctx)
		if err != nil {
			return err
		}
		if !heartbeat.IsZero() {
			return used
		}
		return nil
	}
	token.Data[keyUsedBy] = []byte(key)
	token.Data[keyUsed] = []byte(s.Now().UTC().Format(time.RFC3339))
	// The resourceVersion of what was read makes this compare-and-swap: of two at once, one wins.
	if err := s.Client.Update(ctx, token); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return refusal(enroll.ReasonUnavailable, "the join token is being used at this moment; try again")
		}
		return fmt.Errorf("host %s: mark the join token used: %w", p.GetName(), err)
	}
	return nil
}

// profile that the server was installed by, nil when that can't be told any more.
func (s *Server) profile(ctx context.Context, srv *region.Server) *region.Profile {
	w, err := server.ReadDesired(ctx, s.Client, s.RegionName, srv)
	if err != nil {
		return nil
	}
	return server.ProfileOf(w, srv)
}

// recordKey writes down that a certificate for a key is about to be signed, before it is, unless the record is another one
// than was read before: an installation that was ordered meanwhile revokes all keys.
func (s *Server) recordKey(ctx context.Context, p peer, before *hostkey.Record, key, asking hostkey.Key) error {
	if before == nil {
		before = &hostkey.Record{}
	}
	return conflict(hostkey.Update(ctx, s.Client, p.Object, func(r *hostkey.Record) error {
		if !r.Issued.Equal(before.Issued) {
			return hostkey.ErrConflict
		}
		r.Sign(key, asking, s.Now())
		return nil
	}))
}

// grant makes what the host needs, and gives its rights to those who are on its record, which the key is. If an installation was
// ordered since, it revoked the key, and took the rights before they were given here: then they are taken again.
func (s *Server) grant(ctx context.Context, p peer, key string) error {
	for range 2 {
		record, err := hostkey.Read(ctx, s.Client, p.Object)
		if err != nil {
			return err
		}
		if err := p.ensure(ctx, record.Holders()); err != nil {
			return err
		}
		if record, err = hostkey.Read(ctx, s.Client, p.Object); err != nil || record.Holds(key) {
			return err
		}
	}
	return conflict(hostkey.ErrConflict)
}

// conflict has the machine try again when a record of keys was written by another request at the same time.
func conflict(err error) error {
	if errors.Is(err, hostkey.ErrConflict) {
		return refusal(enroll.ReasonUnavailable, "%v", err)
	}
	return err
}
