// Package hostkey keeps, for each host, the record of the keys that regiond had certificates signed for. By it
// an agent whose certificate expired is recognised, and one of an earlier installation of the same name is
// refused. The record is not in a status: a host may write its own, and every status may be lost.
package hostkey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// Validity of a host's certificate. Its agent renews it when two thirds have passed.
const Validity = 90 * 24 * time.Hour

// Window is how long a readmission may be used. Agents that wait for one ask every minute.
const Window = time.Hour

// Record of a host's keys. Keys are named as by enroll.KeyID.
type Record struct {
	// Keys whose certificate the host may hold: the one last signed and, if that was a renewal, the one that asked
	// for it, since the answer may have been lost. None after an installation was ordered, until its agent joins.
	Keys []string `json:"keys"`
	// Named are those of Keys that the subject of their certificate names: the host's rights are theirs. Agents of earlier
	// versions ask for certificates with the host's name only.
	Named []string `json:"named,omitempty"`
	// Issued is when they were recorded, and Expires when the certificate of the first one expires.
	Issued  time.Time `json:"issued,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Asked is when a host with one of the keys last asked to be readmitted (to AskedEvery), and AskedFrom its address.
	Asked     time.Time `json:"asked,omitzero"`
	AskedFrom string    `json:"askedFrom,omitempty"`
	// ReadmitUntil is until when one of the keys may be exchanged for a new certificate, once. Zero: not at all.
	ReadmitUntil time.Time `json:"readmitUntil,omitzero"`
	// ReadmittedKey is the key that used the readmission, and Readmitted when.
	ReadmittedKey string    `json:"readmittedKey,omitempty"`
	Readmitted    time.Time `json:"readmitted,omitzero"`
	// OfJoin: there was no record, and this one is from the join token of the host's installation, with the first
	// key only. Versions before records were kept left no more.
	OfJoin bool `json:"-"`
}

// Secret's keys and the prefix of its name.
const (
	prefix    = "hostkey-"
	keyRecord = "record.json"
	keyOwner  = "ownerUID"
)

// Name of the Secret, in region.NamespaceSystem, with the record of a host.
func Name(host string) string { return prefix + host }

// HostOf returns the host whose record a Secret of that name is.
func HostOf(secret string) (string, bool) { return strings.CutPrefix(secret, prefix) }

// Read returns the record of a Server, or of the Host of a machine that regiond did not install. It is nil when there is
// none of this very object: what was recorded for an earlier one of the same name is another machine's.
func Read(ctx context.Context, c client.Reader, owner client.Object) (*Record, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: region.NamespaceSystem, Name: Name(owner.GetName())}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("host %s: read the record of its key: %w", owner.GetName(), err)
	}
	return decode(secret, owner)
}

// List returns the records of all hosts, by the host's name.
func List(ctx context.Context, c client.Reader) (map[string]Record, error) {
	var secrets corev1.SecretList
	if err := c.List(ctx, &secrets, client.InNamespace(region.NamespaceSystem)); err != nil {
		return nil, fmt.Errorf("list the records of hosts' keys: %w", err)
	}
	out := map[string]Record{}
	for _, secret := range secrets.Items {
		host, is := HostOf(secret.Name)
		if !is {
			continue
		}
		var r Record
		if err := json.Unmarshal(secret.Data[keyRecord], &r); err != nil {
			return nil, fmt.Errorf("host %s: Secret %s/%s: %s: %w; delete it if it was edited by hand", host, secret.Namespace, secret.Name, keyRecord, err)
		}
		out[host] = r
	}
	return out, nil
}

func decode(secret *corev1.Secret, owner client.Object) (*Record, error) {
	if string(secret.Data[keyOwner]) != string(owner.GetUID()) {
		return nil, nil
	}
	r := &Record{}
	if err := json.Unmarshal(secret.Data[keyRecord], r); err != nil {
		return nil, fmt.Errorf("host %s: Secret %s/%s: %s: %w; delete it if it was edited by hand", owner.GetName(), secret.Namespace, secret.Name, keyRecord, err)
	}
	return r, nil
}

// ErrConflict says that the record was written by someone else meanwhile. Nothing was changed; try again.
var ErrConflict = errors.New("the record of the host's key is being written at this moment; try again")

// Update changes the record of an object, which is empty if there was none. An error of change is
// returned and nothing is written.
func Update(ctx context.Context, c client.Client, owner client.Object, change func(*Record) error) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: Name(owner.GetName()), Namespace: region.NamespaceSystem}}
	refused := error(nil)
	_, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
		r, err := decode(secret, owner)
		if err != nil {
			return err
		}
		if r == nil {
			r = &Record{}
		}
		if refused = change(r); refused != nil {
			return refused
		}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		secret.Data = map[string][]byte{keyOwner: []byte(owner.GetUID()), keyRecord: b}
		secret.OwnerReferences = nil
		return controllerutil.SetControllerReference(owner, secret, c.Scheme())
	})
	switch {
	case refused != nil:
		return refused
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return ErrConflict
	case err != nil:
		return fmt.Errorf("host %s: record its key: %w", owner.GetName(), err)
	}
	return nil
}

// Holds says whether a certificate for the key was signed for this installation of the host.
func (r *Record) Holds(key string) bool { return r != nil && slices.Contains(r.Keys, key) }

// Adopt takes over what the join token of the host's installation says, unless something was recorded since it was read. An
// order to install is recorded, too: it has a time and no keys, and revokes the token's.
func (r *Record) Adopt(ofJoin *Record) {
	if ofJoin.OfJoin && len(r.Keys) == 0 && r.Issued.IsZero() {
		*r = *ofJoin
	}
}

// Superseded says whether a valid certificate for the key is of an earlier installation of the host, or a copy from before its
// last renewals: it is older than what was recorded since. A younger one is not: then the record is the stale one, of a backup
// that was restored.
func (r *Record) Superseded(key string, notBefore time.Time) bool {
	return r != nil && !r.Holds(key) && !notBefore.After(r.Issued)
}

// Key of a certificate, or of a request for one.
type Key struct {
	// ID as of enroll.KeyID.
	ID string
	// Named: the subject names it.
	Named bool
}

// Sign records that a certificate for the key is about to be signed. asking is the key of the
// certificate that asked for it, empty for none.
func (r *Record) Sign(key, asking Key, now time.Time) {
	r.Keys, r.Named = nil, nil
	for _, k := range []Key{key, asking} {
		if k.ID == "" || r.Holds(k.ID) {
			continue
		}
		r.Keys = append(r.Keys, k.ID)
		if k.Named {
			r.Named = append(r.Named, k.ID)
		}
	}
	r.Issued, r.Expires = now.UTC(), now.Add(Validity).UTC()
	r.Asked, r.AskedFrom = time.Time{}, ""
}

// Confirm records that the certificate that was last signed is in use, so that no other key is needed any more. It returns false
// for another key.
func (r *Record) Confirm(key string) bool {
	if len(r.Keys) == 0 || r.Keys[0] != key {
		return false
	}
	r.Keys = r.Keys[:1]
	r.Named = slices.DeleteFunc(r.Named, func(k string) bool { return k != key })
	return true
}

// Holders are who has the host's rights.
func (r *Record) Holders() host.Holders {
	if r == nil {
		return host.Holders{ByName: true, Unrecorded: true}
	}
	var h host.Holders
	for _, k := range r.Keys {
		if slices.Contains(r.Named, k) {
			h.Keys = append(h.Keys, k)
		} else {
			h.ByName = true
		}
	}
	return h
}

// Expired says whether the certificate that was last signed has expired.
func (r *Record) Expired(now time.Time) bool {
	return r != nil && len(r.Keys) > 0 && !r.Expires.IsZero() && !now.Before(r.Expires)
}

// NeedsReadmission says whether the host can't come back by itself: its certificate has expired, or it asked with a recorded key
// since it was last heard, so that the last one that was signed did not reach it.
func (r *Record) NeedsReadmission(heartbeat, now time.Time) bool {
	return r.Expired(now) || r != nil && len(r.Keys) > 0 && r.Asked.After(heartbeat)
}

// Need says why the host can't come back by itself. What it holds is not always the certificate of which the record tells.
func (r *Record) Need(now time.Time) string {
	if r.Expired(now) {
		return "its certificate has expired"
	}
	return fmt.Sprintf("it says that its certificate has expired; the one signed for it at %s is valid until %s: that has not reached it, or its clock is wrong",
		r.Issued.UTC().Format(time.RFC3339), r.Expires.UTC().Format(time.RFC3339))
}

// Asks says whether the host's agent is known to ask for its readmission by itself: it has, or it is of a version that names its
// key in requests. Agents of earlier versions do not ask.
func (r *Record) Asks() bool {
	if r == nil || len(r.Keys) == 0 {
		return false
	}
	last := r.Keys[0]
	return slices.Contains(r.Named, last) || !r.Asked.IsZero() || r.ReadmittedKey == last
}

// Open says whether a readmission waits to be used.
func (r *Record) Open(now time.Time) bool {
	return r != nil && now.Before(r.ReadmitUntil) && r.Readmitted.IsZero()
}

// Readmits says whether a key may be exchanged for a new certificate now. The key that used the
// readmission may ask again while it is open, since the answer may have been lost, but not after
// its host was heard with the new certificate.
func (r *Record) Readmits(key string, heartbeat, now time.Time) bool {
	if !r.Holds(key) || !now.Before(r.ReadmitUntil) {
		return false
	}
	return r.Readmitted.IsZero() || r.ReadmittedKey == key && !heartbeat.After(r.Readmitted)
}
