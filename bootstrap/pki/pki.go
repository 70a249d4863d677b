// Package pki manages the certificates of the control plane: three certificate authorities, the
// certificates that they have issued, and the key that signs service-account tokens. It follows
// "PKI certificates and requirements" in Kubernetes' documentation: etcd and the aggregation layer
// have their own authorities, so that etcd never trusts a client certificate of the cluster's
// authority (a host agent's, say), and no such client can pose as the aggregator.
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

// ClusterAuthority is the common name of the cluster's authority.
const ClusterAuthority = "regiond-ca"

const (
	// authorityLife is how long an authority's own certificate is valid.
	authorityLife = 10 * 365 * 24 * time.Hour
	// leafLife is how long an issued certificate is valid.
	leafLife = 365 * 24 * time.Hour
	// backDate makes certificates valid on hosts whose clock is behind (a dead RTC battery, before
	// NTP).
	backDate = time.Hour
)

// PKI is the content of one directory:
//
//	ca.crt ca.key               the cluster's authority and, beside it, the certificates it has issued
//	etcd/ca.crt ...             etcd's authority
//	front-proxy/ca.crt ...      the aggregation layer's authority
//	sa.key sa.pub               sign and verify service-account tokens
type PKI struct {
	// Cluster signs serving certificates and the client certificates that the API server trusts.
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

// Load reads the PKI in dir, and creates missing parts on first use. It resumes an interrupted
// first use: each file is complete or missing, and an authority's key is written before its
// certificate.
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
		{&p.Cluster, filepath.Join(dir, folders[0]), ClusterAuthority},
		{&p.Etcd, filepath.Join(dir, folders[1]), "regiond-etcd-ca"},
		{&p.FrontProxy, filepath.Join(dir, folders[2]), "regiond-front-proxy-ca"},
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

// ServiceAccountKey returns the path of the private key that signs service-account tokens.
func (p *PKI) ServiceAccountKey() string { return filepath.Join(p.dir, "sa.key") }

// ServiceAccountPublicKey returns the path of the public key that verifies service-account tokens.
func (p *PKI) ServiceAccountPublicKey() string { return filepath.Join(p.dir, "sa.pub") }

// Dir returns the directory given to Load.
func (p *PKI) Dir() string { return p.dir }

// UID identifies the region by its cluster authority: the first 16 bytes of the SHA-256 of the
// certificate. All control hosts of the region have the same UID, and a restored backup keeps it.
func (p *PKI) UID() uuid.UUID {
	sum := sha256.Sum256(p.Cluster.Certificate().Raw)
	return uuid.UUID(sum[:16])
}

// loadServiceAccountKey creates the key pair if there is none. If only the public key is missing,
// as after an interrupted first use, it is derived from the private key.
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

// Inventory lists all certificates of all three authorities, sorted by expiry, earliest first, with
// their users.
func (p *PKI) Inventory() ([]Certificate, error) {
	all, err := Inventory(p.dir)
	users := p.users()
	for i := range all {
		all[i].UsedBy = users[all[i].Name]
	}
	return all, err
}
