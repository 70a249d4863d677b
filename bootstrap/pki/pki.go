// Package pki keeps the certificates of the control plane: three certificate authorities, what they have issued, and the key
// that signs service-account tokens. It follows "PKI certificates and requirements" of Kubernetes' documentation: etcd and the
// aggregation layer have authorities of their own, so that no client certificate of the cluster's authority (a host agent's, say)
// is ever believed by etcd or passes for the aggregator.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

const (
	// authorityLife is how long an authority's own certificate is valid.
	authorityLife = 10 * 365 * 24 * time.Hour
	// leafLife is how long an issued certificate is valid.
	leafLife = 365 * 24 * time.Hour
	// backDate makes certificates valid for hosts whose clock is slow (a dead RTC battery, before NTP).
	backDate = time.Hour
)

// PKI is everything below one directory:
//
//	ca.crt ca.key               the cluster's authority and, beside it, what it has issued
//	etcd/ca.crt ...             etcd's authority
//	front-proxy/ca.crt ...      the aggregation layer's authority
//	sa.key sa.pub               signs and checks service-account tokens
type PKI struct {
	// Cluster signs serving certificates and the client certificates that the API server believes.
	Cluster *Authority
	// Etcd signs etcd's server, peer and client certificates.
	Etcd *Authority
	// FrontProxy signs the aggregator's client certificate only.
	FrontProxy *Authority

	dir string
}

// Option changes how Load works.
type Option func(*options)

type options struct{ now func() time.Time }

// WithClock replaces the clock, for tests of renewal.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// Load reads the PKI in dir and creates on first use what is missing. An interrupted first use is continued: a file is there
// whole or not at all, and an authority's key is written before its certificate.
func Load(dir string, opts ...Option) (*PKI, error) {
	o := options{now: time.Now}
	for _, f := range opts {
		f(&o)
	}
	p := &PKI{dir: dir}
	for _, a := range []struct {
		field **Authority
		dir   string
		name  string
	}{
		{&p.Cluster, dir, "regiond-ca"},
		{&p.Etcd, filepath.Join(dir, "etcd"), "regiond-etcd-ca"},
		{&p.FrontProxy, filepath.Join(dir, "front-proxy"), "regiond-front-proxy-ca"},
	} {
		authority, err := loadAuthority(a.dir, a.name, o.now)
		if err != nil {
			return nil, err
		}
		*a.field = authority
	}
	if err := p.loadServiceAccountKey(); err != nil {
		return nil, err
	}
	return p, nil
}

// ServiceAccountKey is the path of the private key that signs service-account tokens.
func (p *PKI) ServiceAccountKey() string { return filepath.Join(p.dir, "sa.key") }

// ServiceAccountPublicKey is the path of the public key that checks service-account tokens.
func (p *PKI) ServiceAccountPublicKey() string { return filepath.Join(p.dir, "sa.pub") }

// Dir is the directory given to Load.
func (p *PKI) Dir() string { return p.dir }

// UID identifies the region by its cluster authority: the first 16 bytes of the SHA-256 of the
// certificate. All control hosts of the region have it, and it is the same after a backup was
// restored.
func (p *PKI) UID() uuid.UUID {
	sum := sha256.Sum256(p.Cluster.Certificate().Raw)
	return uuid.UUID(sum[:16])
}

// loadServiceAccountKey creates the key pair when there is none. The public half is rewritten from the private one when it is
// missing, which is all that an interrupted first use can leave behind.
func (p *PKI) loadServiceAccountKey() error {
	key, err := readKey(p.ServiceAccountKey())
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return fmt.Errorf("generating the service-account key: %w", err)
		}
		err = writeKey(p.ServiceAccountKey(), key)
	}
	if err != nil {
		return fmt.Errorf("service-account key: %w", err)
	}
	if _, err := readPEM(p.ServiceAccountPublicKey(), "PUBLIC KEY"); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("service-account key: %w", err)
	}
	return writePublicKey(p.ServiceAccountPublicKey(), key)
}

// Inventory lists every certificate of all three authorities, sorted by the time each ends, first to end first.
func (p *PKI) Inventory() ([]Certificate, error) {
	var all []Certificate
	for _, a := range []*Authority{p.Cluster, p.Etcd, p.FrontProxy} {
		certificates, err := a.inventory(p.dir)
		if err != nil {
			return nil, err
		}
		all = append(all, certificates...)
	}
	sortByEnd(all)
	return all, nil
}
