package enrollserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enroll"
	"regiond.dev/regiond/hardware/host"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// join exchanges a join token for a client certificate, once. The token together with the machine's
// SMBIOS UUID says who asks; a source address or MAC address can't be verified across routers.
func (s *Server) join(ctx context.Context, r *http.Request, in enroll.JoinRequest) (any, error) {
	srv, token, err := s.verify(ctx, kindJoin, bearer(r))
	if err != nil {
		return nil, err
	}
	log := s.Log.With(slog.String("server", srv.Name), slog.String("from", source4(r).String()))
	if bound := string(token.Data[keySystemUUID]); !sameUUID(bound, in.SystemUUID) {
		return nil, refusal(enroll.ReasonWrongServer, "the token was issued for server %s with system UUID %s, it came from a machine with %q", srv.Name, bound, in.SystemUUID)
	}
	csr, key, err := parseCSR(in.CSR, srv.Name)
	if err != nil {
		return nil, err
	}
	if err := s.consume(ctx, srv, token, key); err != nil {
		return nil, err
	}
	if err := host.Ensure(ctx, s.Client, srv, s.role(ctx, srv)); err != nil {
		return nil, err
	}
	certificate, err := s.sign(ctx, srv, csr, key)
	if err != nil {
		return nil, err
	}
	// The installer's job is done for good.
	if err := s.revoke(ctx, kindTicket, srv.Name); err != nil {
		return nil, err
	}
	s.metrics.tokens.WithLabelValues(kindJoin, "used").Inc()
	log.Info("host joined: certificate issued", slog.String("user", host.User(srv.Name)), slog.String("key", key[:16]))
	return enroll.JoinResponse{Certificate: certificate}, nil
}

// consume marks a token used by a key, before anything is signed. A process that is killed after
// that leaves a token that only the same key can use again, and only until the host has used a
// certificate: its first heartbeat.
func (s *Server) consume(ctx context.Context, srv *region.Server, token *corev1.Secret, key string) error {
	used := refusal(enroll.ReasonTokenUsed, "the join token of server %s was used already; install the server again if its agent lost its certificate", srv.Name)
	if by := string(token.Data[keyUsedBy]); by != "" {
		if by != key {
			return used
		}
		facts, err := server.ReadFacts(ctx, s.Client, srv)
		if err != nil {
			return err
		}
		if !facts.Heartbeat.IsZero() {
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
		return fmt.Errorf("server %s: mark the join token used: %w", srv.Name, err)
	}
	return nil
}

// renew exchanges a valid client certificate for a new one.
func (s *Server) renew(ctx context.Context, r *http.Request, in enroll.JoinRequest) (any, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, refusal(enroll.ReasonTokenUnknown, "a client certificate of a host is needed")
	}
	cert := r.TLS.VerifiedChains[0][0]
	name, ok := strings.CutPrefix(cert.Subject.CommonName, enroll.UserPrefix)
	if !ok || !isLabel(name) || !slices.Contains(cert.Subject.Organization, enroll.Group) {
		return nil, refusal(enroll.ReasonWrongServer, "the client certificate of %q is not a host's", cert.Subject.CommonName)
	}
	srv := &region.Server{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, srv); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, refusal(enroll.ReasonWrongServer, "there is no server %q", name)
		}
		return nil, err
	}
	// A certificate from before this Server object was another server's of the same name. Signers
	// back-date by minutes against clocks that disagree.
	const backDated = 10 * time.Minute
	if !srv.DeletionTimestamp.IsZero() || cert.NotBefore.Add(backDated).Before(srv.CreationTimestamp.Time) {
		return nil, refusal(enroll.ReasonWrongServer, "the certificate belongs to an earlier server %q", name)
	}
	if known := machineUUID(srv); known != "" && !sameUUID(known, in.SystemUUID) {
		return nil, refusal(enroll.ReasonWrongServer, "the certificate belongs to server %s with system UUID %s, it came from a machine with %q", name, known, in.SystemUUID)
	}
	csr, key, err := parseCSR(in.CSR, name)
	if err != nil {
		return nil, err
	}
	if err := host.Ensure(ctx, s.Client, srv, s.role(ctx, srv)); err != nil {
		return nil, err
	}
	certificate, err := s.sign(ctx, srv, csr, key)
	if err != nil {
		return nil, err
	}
	s.Log.Info("host renewed its certificate", slog.String("server", name), slog.String("from", source4(r).String()), slog.String("key", key[:16]))
	return enroll.JoinResponse{Certificate: certificate}, nil
}

// machineUUID is what the machine itself once reported. The BMC's word is not taken here: it may differ.
func machineUUID(srv *region.Server) string {
	if srv.Status.Inventory == nil {
		return ""
	}
	return srv.Status.Inventory.System.UUID
}

// role of the server's Host: that of its profile, or the one it has.
func (s *Server) role(ctx context.Context, srv *region.Server) region.Role {
	if srv.Status.Inventory != nil {
		if w, err := server.ReadWish(ctx, s.Client, s.RegionName, srv); err == nil {
			if p, refused := server.MatchProfile(w, srv.Status.Inventory); refused == nil {
				return p.Role
			}
		}
	}
	return ""
}

// parseCSR checks a request for a host's certificate and returns it with the SHA-256 of its public key.
func parseCSR(text, hostname string) (csrPEM []byte, key string, err error) {
	malformed := func(format string, args ...any) ([]byte, string, error) {
		return nil, "", refusal(enroll.ReasonMalformed, "csr: "+format, args...)
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return malformed("not exactly one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return malformed("%v", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return malformed("signature: %v", err)
	}
	// Kubernetes signs the subject as it stands: it must be the host's and nothing more.
	if want := enroll.Subject(hostname); csr.Subject.CommonName != want.CommonName || !slices.Equal(csr.Subject.Organization, want.Organization) || len(csr.Subject.Names) != 2 {
		return malformed("subject is %q, it must be %q", csr.Subject, want)
	}
	if len(csr.DNSNames)+len(csr.IPAddresses)+len(csr.URIs)+len(csr.EmailAddresses) > 0 {
		return malformed("subject alternative names are not for a client")
	}
	switch k := csr.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 || k.N.BitLen() > 8192 {
			return malformed("RSA key of %d bits, 2048 to 8192 are taken", k.N.BitLen())
		}
	default:
		return malformed("key type %T is not taken", k)
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), hex.EncodeToString(sum[:]), nil
}
