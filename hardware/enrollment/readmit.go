package enrollment

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// askedEvery is how often it is written down that a host waits to be readmitted. It asks more often.
const askedEvery = 5 * time.Minute

// movedEvery is how often that is written down of one that asks from another address each time: two machines with one key do.
const movedEvery = time.Minute

// readmit exchanges the key of an expired certificate for a new certificate, once an operator has
// allowed it. The request is signed by that key, and the certificate is issued for it: whoever
// repeats the request gets nothing that he can use.
func (s *Server) readmit(ctx context.Context, r *http.Request, in enroll.JoinRequest) (any, error) {
	csr, err := decodeCSR(in.CSR)
	if err != nil {
		return nil, err
	}
	name, ok := strings.CutPrefix(csr.Subject.CommonName, enroll.UserPrefix)
	if !ok || !isLabel(name) {
		return nil, refusal(enroll.ReasonMalformed, "csr: subject is %q, it must be a host's", csr.Subject)
	}
	request, key, err := parseCSR(in.CSR, name)
	if err != nil {
		return nil, err
	}
	owner, err := ownerOf(ctx, s.Client, name)
	if err != nil {
		return nil, err
	}
	record, err := recordOf(ctx, s.Client, owner)
	if err != nil {
		return nil, err
	}
	// Whoever can't prove the key learns nothing of the host, not even whether there is one.
	if !record.Holds(key.ID) {
		return nil, refusal(enroll.ReasonWrongServer, "regiond has no record of a certificate of host %q for the key %s; if this is that host's disk, "+
			"the server was installed again since, or its key was never recorded: install it again (spec.reinstallAfter)", name, key.ID[:16])
	}
	out, err := s.readmitOf(ctx, source4(r).String(), in.SystemUUID, holder{owner, record, request, key})
	return out, asProven(err)
}

// holder is who asks to be readmitted, and has proved that he holds a recorded key.
type holder struct {
	owner   client.Object
	record  *hostkey.Record
	request []byte // for a certificate
	key     hostkey.Key
}

// readmitOf is readmit of the host whose key was proved.
func (s *Server) readmitOf(ctx context.Context, from, systemUUID string, h holder) (any, error) {
	name, record, key := h.owner.GetName(), h.record, h.key
	p, err := s.renewing(ctx, name, systemUUID)
	if err != nil {
		return nil, err
	}
	if p.GetUID() != h.owner.GetUID() || p.GetDeletionTimestamp() != nil {
		return nil, refusal(enroll.ReasonWrongServer, "host %s is being deleted", name)
	}
	heartbeat, err := p.heartbeat(ctx)
	if err != nil {
		return nil, err
	}
	if !record.Readmits(key.ID, heartbeat, s.Now()) {
		return nil, s.await(ctx, p, h, from)
	}
	if err := s.useReadmission(ctx, p, key, heartbeat); err != nil {
		return nil, err
	}
	response, err := s.admit(ctx, p, h.request, key.ID)
	if err != nil {
		return nil, err
	}
	s.Log.Info("host readmitted: certificate issued for its recorded key", slog.String("host", name), slog.String("from", from), slog.String("key", key.ID[:16]))
	return response, nil
}

// await writes down that a host waits for its readmission, and refuses it.
func (s *Server) await(ctx context.Context, p peer, h holder, from string) error {
	now := s.Now()
	if since := now.Sub(h.record.Asked); since >= askedEvery || h.record.AskedFrom != from && since >= movedEvery {
		err := hostkey.Update(ctx, s.Client, p.Object, func(r *hostkey.Record) error {
			r.Adopt(h.record)
			if !r.Holds(h.key.ID) { // revoked meanwhile
				return hostkey.ErrConflict
			}
			r.Asked, r.AskedFrom = now.UTC(), from
			return nil
		})
		if err != nil {
			return conflict(err)
		}
	}
	return refusal(enroll.ReasonNotReadmitted, "host %s waits for its readmission: %s. Its key is known, an operator lets it back: regiond server readmit %[1]s", p.GetName(), h.record.Need(now))
}

// useReadmission marks a readmission used, before anything is signed.
func (s *Server) useReadmission(ctx context.Context, p peer, key hostkey.Key, heartbeat time.Time) error {
	now := s.Now()
	return conflict(hostkey.Update(ctx, s.Client, p.Object, func(r *hostkey.Record) error {
		if !r.Readmits(key.ID, heartbeat, now) { // it was used or revoked meanwhile
			return hostkey.ErrConflict
		}
		r.Sign(key, hostkey.Key{}, now)
		if r.Readmitted.IsZero() {
			r.Readmitted, r.ReadmittedKey = now.UTC(), key.ID
		}
		return nil
	}))
}

// ownerOf is the Server of that name, or the Host of a machine that regiond did not install. It is nil when there is neither.
func ownerOf(ctx context.Context, c client.Reader, name string) (client.Object, error) {
	srv := &region.Server{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, srv)
	if err == nil || !apierrors.IsNotFound(err) {
		return srv, err
	}
	h := &region.Host{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, h); client.IgnoreNotFound(err) != nil {
		return nil, err
	} else if err != nil || !host.Enrolled(h) {
		return nil, nil
	}
	return h, nil
}

// recordOf is the record of a host's keys. Versions that kept none left the key that used its join
// token: that of the present installation's first certificate, since the next installation replaces
// the token.
func recordOf(ctx context.Context, c client.Reader, owner client.Object) (*hostkey.Record, error) {
	if owner == nil {
		return nil, nil
	}
	r, err := hostkey.Read(ctx, c, owner)
	if r != nil || err != nil {
		return r, err
	}
	token := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: region.NamespaceSystem, Name: host.JoinToken(owner.GetName())}, token); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	uid := string(owner.GetUID())
	if uid == "" || string(token.Data[keyServerUID]) != uid && string(token.Data[keyHostUID]) != uid {
		return nil, nil
	}
	key := string(token.Data[keyUsedBy])
	used, err := time.Parse(time.RFC3339, string(token.Data[keyUsed]))
	if key == "" || err != nil {
		return nil, nil
	}
	return &hostkey.Record{Keys: []string{key}, Issued: used, Expires: used.Add(hostkey.Validity), OfJoin: true}, nil
}
