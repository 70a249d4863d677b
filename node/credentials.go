package node

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
)

// Files below the agent's folder. Key and certificate are in one file, so that they can't be torn
// apart by a power cut.
const (
	agentDir    = "agent"
	clientFile  = "client.pem"  // the certificate in use and its key
	pendingFile = "pending.key" // a key that a certificate was asked for, and may have been issued
)

// credentials are the client certificate of this host and how it is obtained.
type credentials struct {
	dir        string // the data partition
	id         identity.Identity
	systemUUID string
	log        *slog.Logger
	mu         sync.Mutex
	current    *tls.Certificate
	// unconfirmed: regiond may not know yet that this certificate arrived, and accepts the one before, too.
	unconfirmed bool
}

// load reads the certificate from disk; without one the host has not joined yet.
func (c *credentials) load() (joined bool, err error) {
	b, err := os.ReadFile(c.path(clientFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c.unconfirmed = true
	return true, c.use(b)
}

func (c *credentials) path(name string) string { return filepath.Join(c.dir, agentDir, name) }

func (c *credentials) use(keyAndCertificate []byte) error {
	cert, err := tls.X509KeyPair(keyAndCertificate, keyAndCertificate)
	if err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = &cert
	return nil
}

// certificate in use, nil before the host has joined.
func (c *credentials) certificate() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// renewAt is when two thirds of the certificate's life have passed.
func (c *credentials) renewAt() time.Time {
	cert := c.certificate()
	if cert == nil || cert.Leaf == nil {
		return time.Time{}
	}
	life := cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore)
	return cert.Leaf.NotBefore.Add(life / 3 * 2)
}

// expired says whether the certificate has expired, so that TLS refuses it.
func (c *credentials) expired(now time.Time) bool {
	cert := c.certificate()
	return cert != nil && cert.Leaf != nil && now.After(cert.Leaf.NotAfter)
}

// join exchanges the join token for a certificate. It may be called again after any failure: the key
// is kept, so that a certificate whose delivery failed can be asked for again.
func (c *credentials) join(ctx context.Context) error {
	if c.id.JoinToken == "" {
		return errors.New("the identity holds no join token and there is no client certificate; install the server again (spec.reinstallAfter)")
	}
	client, err := enroll.NewClient(c.id.EnrollURL, []byte(c.id.CA), nil)
	if err != nil {
		return err
	}
	defer client.Close()
	keyPEM, key, err := c.pendingKey()
	if err != nil {
		return err
	}
	if err := c.obtain(keyPEM, key, func(r enroll.JoinRequest) (enroll.JoinResponse, error) { return client.Join(ctx, c.id.JoinToken, r) }); err != nil {
		return err
	}
	c.log.Info("joined: client certificate received")
	return c.forgetToken()
}

// renew exchanges the certificate for a new one with a new key.
func (c *credentials) renew(ctx context.Context) error {
	client, err := enroll.NewClient(c.id.EnrollURL, []byte(c.id.CA), c.certificate())
	if err != nil {
		return err
	}
	defer client.Close()
	keyPEM, key, err := c.pendingKey()
	if err != nil {
		return err
	}
	if err := c.obtain(keyPEM, key, func(r enroll.JoinRequest) (enroll.JoinResponse, error) { return client.Renew(ctx, r) }); err != nil {
		return err
	}
	c.unconfirmed = true
	c.log.Info("client certificate renewed", slog.Time("renewAgain", c.renewAt()))
	return nil
}

// confirm ends the rights of the certificate that was renewed. A regiond that does not end them has no such path, and one that
// was restored from a backup does not know the certificate: both will say the same again.
func (c *credentials) confirm(ctx context.Context) error {
	client, err := enroll.NewClient(c.id.EnrollURL, []byte(c.id.CA), c.certificate())
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.Confirm(ctx, enroll.ConfirmRequest{SystemUUID: c.systemUUID})
	unknown := enroll.Unknown(err)
	c.unconfirmed = err != nil && !unknown && !enroll.Refused(err)
	if unknown {
		return nil
	}
	return err
}

// readmit exchanges the key of the expired certificate, which proves that this is the host that it
// was issued to, for a new certificate. An operator must have allowed it.
func (c *credentials) readmit(ctx context.Context) error {
	key, ok := c.certificate().PrivateKey.(crypto.Signer)
	if !ok {
		return fmt.Errorf("client certificate: its key of type %T can't sign; install the server again (spec.reinstallAfter)", c.certificate().PrivateKey)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	client, err := enroll.NewClient(c.id.EnrollURL, []byte(c.id.CA), nil)
	if err != nil {
		return err
	}
	defer client.Close()
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := c.obtain(keyPEM, key, func(r enroll.JoinRequest) (enroll.JoinResponse, error) { return client.Readmit(ctx, r) }); err != nil {
		return err
	}
	c.log.Info("readmitted: client certificate received", slog.Time("renewAgain", c.renewAt()))
	return nil
}

// obtain has a certificate signed for a key and keeps both.
func (c *credentials) obtain(keyPEM []byte, key crypto.Signer, exchange func(enroll.JoinRequest) (enroll.JoinResponse, error)) error {
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("certificate request: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: enroll.Subject(c.id.Hostname, enroll.KeyID(spki))}, key)
	if err != nil {
		return fmt.Errorf("certificate request: %w", err)
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	answer, err := exchange(enroll.JoinRequest{CSR: string(csr), SystemUUID: c.systemUUID})
	if err != nil {
		return err
	}
	both := append(append([]byte{}, keyPEM...), answer.Certificate...)
	if _, err := tls.X509KeyPair(both, both); err != nil {
		return fmt.Errorf("the certificate received does not fit the key: %w", err)
	}
	if err := atomicfile.Write(c.path(clientFile), both, 0o600); err != nil {
		return fmt.Errorf("keep the client certificate: %w", err)
	}
	if err := os.Remove(c.path(pendingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.use(both)
}

// pendingKey is the key of a request under way, or a new one, which is on disk before it is used.
func (c *credentials) pendingKey() ([]byte, *ecdsa.PrivateKey, error) {
	if b, err := os.ReadFile(c.path(pendingFile)); err == nil {
		if block, _ := pem.Decode(b); block != nil {
			if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return b, key, nil
			}
		}
		c.log.Warn("the pending key is unreadable, a new one is made")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.MkdirAll(filepath.Join(c.dir, agentDir), 0o700); err != nil {
		return nil, nil, err
	}
	return b, key, atomicfile.Write(c.path(pendingFile), b, 0o600)
}

// forgetToken takes the join token out of the identity: it is used up.
func (c *credentials) forgetToken() error {
	c.id.JoinToken = ""
	b, err := json.MarshalIndent(c.id, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(c.dir, identity.File), append(b, '\n'), 0o600)
}
