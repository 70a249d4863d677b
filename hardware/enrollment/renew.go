package enrollment

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// certified is the host whose client certificate was shown, and the certificate.
func certified(r *http.Request) (name string, cert *x509.Certificate, err error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", nil, refusal(enroll.ReasonTokenUnknown, "a client certificate of a host is needed")
	}
	cert = r.TLS.VerifiedChains[0][0]
	name, ok := strings.CutPrefix(cert.Subject.CommonName, enroll.UserPrefix)
	if !ok || !isLabel(name) || !slices.Contains(cert.Subject.Organization, enroll.Group) {
		return "", nil, refusal(enroll.ReasonWrongServer, "the client certificate of %q is not a host's", cert.Subject.CommonName)
	}
	return name, cert, nil
}

// renew exchanges a valid client certificate for a new one.
func (s *Server) renew(ctx context.Context, r *http.Request, in enroll.JoinRequest) (any, error) {
	name, cert, err := certified(r)
	if err != nil {
		return nil, err
	}
	out, err := s.renewOf(ctx, r, name, cert, in)
	return out, asProven(err)
}

// renewOf is renew of the host that the certificate names.
func (s *Server) renewOf(ctx context.Context, r *http.Request, name string, cert *x509.Certificate, in enroll.JoinRequest) (any, error) {
	p, record, err := s.recorded(ctx, name, cert, in.SystemUUID)
	if err != nil {
		return nil, err
	}
	csr, key, err := parseCSR(in.CSR, name)
	if err != nil {
		return nil, err
	}
	if err := s.recordKey(ctx, p, record, key, keyOf(cert.RawSubjectPublicKeyInfo, cert.Subject)); err != nil {
		return nil, err
	}
	response, err := s.admit(ctx, p, csr, key.ID)
	if err != nil {
		return nil, err
	}
	s.Log.Info("host renewed its certificate", slog.String("host", name), slog.String("from", source4(r).String()), slog.String("key", key.ID[:16]))
	return response, nil
}

// confirm ends the rights of the certificate before: the host shows that it has the one that was signed last.
func (s *Server) confirm(ctx context.Context, r *http.Request, in enroll.ConfirmRequest) (any, error) {
	name, cert, err := certified(r)
	if err != nil {
		return nil, err
	}
	return nil, asProven(s.confirmOf(ctx, name, cert, in.SystemUUID))
}

// confirmOf is confirm of the host that the certificate names.
func (s *Server) confirmOf(ctx context.Context, name string, cert *x509.Certificate, systemUUID string) error {
	p, _, err := s.recorded(ctx, name, cert, systemUUID)
	if err != nil {
		return err
	}
	key := enroll.KeyID(cert.RawSubjectPublicKeyInfo)
	err = hostkey.Update(ctx, s.Client, p.Object, func(r *hostkey.Record) error {
		if !r.Confirm(key) {
			return refusal(enroll.ReasonWrongServer, "the certificate of host %s with the key %s is not the last one that was signed for it", name, key[:16])
		}
		return nil
	})
	if err != nil {
		return conflict(err)
	}
	return s.grant(ctx, p, key)
}

// recorded is the peer of that name whose certificate was shown, with the record of its keys, unless the certificate belongs to
// another one of the name.
func (s *Server) recorded(ctx context.Context, name string, cert *x509.Certificate, systemUUID string) (peer, *hostkey.Record, error) {
	fail := func(err error) (peer, *hostkey.Record, error) { return peer{}, nil, err }
	p, err := s.renewing(ctx, name, systemUUID)
	if err != nil {
		return fail(err)
	}
	// A certificate from before this object was another machine's of the same name. Signers back-date by
	// minutes against clocks that disagree.
	const backDated = 10 * time.Minute
	if p.GetDeletionTimestamp() != nil || cert.NotBefore.Add(backDated).Before(p.GetCreationTimestamp().Time) {
		return fail(refusal(enroll.ReasonWrongServer, "the certificate belongs to an earlier machine %q", name))
	}
	record, err := hostkey.Read(ctx, s.Client, p.Object)
	if err != nil {
		return fail(err)
	}
	if key := enroll.KeyID(cert.RawSubjectPublicKeyInfo); record.Superseded(key, cert.NotBefore) {
		return fail(refusal(enroll.ReasonWrongServer, "the certificate belongs to an earlier installation of %q, or to a copy of its disk: its key %s is not the one recorded at %s",
			name, key[:16], stamp(record.Issued)))
	}
	return p, record, nil
}

// renewing is the peer of that name, which has shown its certificate.
func (s *Server) renewing(ctx context.Context, name, systemUUID string) (peer, error) {
	srv := &region.Server{}
	err := s.Client.Get(ctx, client.ObjectKey{Name: name}, srv)
	if err == nil {
		if known := machineUUID(srv); known != "" && !sameUUID(known, systemUUID) {
			return peer{}, refusal(enroll.ReasonWrongServer, "the certificate belongs to server %s with system UUID %s, it came from a machine with %q",
				name, known, systemUUID)
		}
		if err := s.inService(srv, time.Time{}); err != nil {
			return peer{}, err
		}
		return s.installed(srv), nil
	}
	if !apierrors.IsNotFound(err) {
		return peer{}, err
	}
	h := &region.Host{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, h); client.IgnoreNotFound(err) != nil {
		return peer{}, err
	} else if err != nil || !host.Enrolled(h) {
		return peer{}, refusal(enroll.ReasonWrongServer, "there is no server %q", name)
	}
	return s.enrolled(h), nil
}

// machineUUID is what the machine itself once reported. The BMC's word is not taken here: it may differ.
func machineUUID(srv *region.Server) string {
	if srv.Status.Inventory == nil {
		return ""
	}
	return srv.Status.Inventory.System.UUID
}
