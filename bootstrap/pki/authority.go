package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Authority is a certificate authority (ECDSA P-256) and the directory with the certificates that
// it has issued. Its methods are safe for concurrent use.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  func() time.Time

	mu     sync.Mutex         // serializes Issue, so that a key and its certificate always belong together
	issued map[string]Request // requests to Issue in this process, by name, for Renew; guarded by mu
}

// Usage is what a certificate may be used for.
type Usage int

// Usages of a certificate (RFC 5280, 4.2.1.12).
const (
	Client Usage = 1 << iota
	Server
)

// Request describes a certificate.
type Request struct {
	// CN is the subject's common name; the API server reads it as the user name.
	CN string
	// Org are the subject's organizations: the user's groups.
	Org []string
	// SANs are DNS names and IP addresses, distinguished by their form.
	SANs []string
	// Usages is Client, Server or both.
	Usages Usage
	// UsedBy is the process that presents the certificate, for the inventory. It is not in the
	// certificate.
	UsedBy string
}

// Pair has the paths of an issued certificate and its key.
type Pair struct{ CertFile, KeyFile string }

// loadAuthority loads or creates an authority. An interrupted creation leaves a key without a
// certificate; the key has signed nothing yet and is used.
func loadAuthority(dir, name string, now func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the PKI's directory: %w", err)
	}
	// MkdirAll does not change the mode of an existing directory.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("closing the PKI's directory to other users: %w", err)
	}
	if err := removeLeftovers(dir); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, now: now, issued: map[string]Request{}}
	certFile, keyFile := a.path("ca").CertFile, a.path("ca").KeyFile
	cert, certErr := readCertificate(certFile)
	key, keyErr := readKey(keyFile)
	switch {
	case certErr == nil && keyErr == nil:
		if !key.PublicKey.Equal(cert.PublicKey) {
			return nil, fmt.Errorf("%s and %s do not belong together; restore both from one backup", certFile, keyFile)
		}
		a.cert, a.key = cert, key
		return a, nil
	case errors.Is(certErr, fs.ErrNotExist) && (keyErr == nil || errors.Is(keyErr, fs.ErrNotExist)):
		return a, a.create(name, key)
	case errors.Is(keyErr, fs.ErrNotExist):
		return nil, fmt.Errorf("%s exists but its key %s is missing; restore the key from a backup", certFile, keyFile)
	case certErr != nil:
		return nil, certErr
	default:
		return nil, keyErr
	}
}

func (a *Authority) create(name string, key *ecdsa.PrivateKey) error {
	if key == nil {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return fmt.Errorf("generating the key of %s: %w", name, err)
		}
		if err := writeKey(a.path("ca").KeyFile, key); err != nil {
			return err
		}
	}
	serial, err := serialNumber()
	if err != nil {
		return err
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backDate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // signs leaf certificates only
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("creating the certificate of %s: %w", name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("reading back the certificate of %s: %w", name, err)
	}
	a.key = key
	return writePEM(a.path("ca").CertFile, "CERTIFICATE", der)
}

// Certificate returns the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// CertificatePEM returns the authority's own certificate in PEM, for those who must trust it.
func (a *Authority) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// CertFile returns the path of the authority's own certificate.
func (a *Authority) CertFile() string { return a.path("ca").CertFile }

// KeyFile returns the path of the authority's private key.
func (a *Authority) KeyFile() string { return a.path("ca").KeyFile }

func (a *Authority) path(name string) Pair {
	return Pair{CertFile: filepath.Join(a.dir, name+".crt"), KeyFile: filepath.Join(a.dir, name+".key")}
}

// Issue ensures that <name>.crt and <name>.key fit the request. It keeps a certificate that this
// authority signed for the same subject, names and usages if more than a third of its lifetime is
// left; otherwise it issues a new one with a new key. Renew renews it from then on.
func (a *Authority) Issue(name string, r Request) (Pair, error) {
	if name == "ca" || name == "" || filepath.Base(name) != name {
		return Pair{}, fmt.Errorf("certificate name %q: use a plain file name other than ca", name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pair, _, err := a.ensure(name, r)
	if err == nil {
		a.issued[name] = r
	}
	return pair, err
}

// ensure implements Issue and reports whether it issued a new certificate. The caller holds mu.
func (a *Authority) ensure(name string, r Request) (_ Pair, issued bool, _ error) {
	pair := a.path(name)
	if cert, err := readCertificate(pair.CertFile); err == nil && stillValid(cert, a.cert, r, a.now()) {
		// The key is renamed into place first, so a crash between the two leaves the old certificate with
		// the new key.
		if key, err := readKey(pair.KeyFile); err == nil && key.PublicKey.Equal(cert.PublicKey) {
			return pair, false, nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, false, fmt.Errorf("generating the key of %s: %w", name, err)
	}
	der, err := a.sign(key.Public(), r, leafLife)
	if err != nil {
		return Pair{}, false, err
	}
	private, err := keyFile(pair.KeyFile, key)
	if err != nil {
		return Pair{}, false, err
	}
	// Both or none if the disk is full: running components may reread them at any time.
	if err := writeFiles(private, pemFile(pair.CertFile, "CERTIFICATE", der)); err != nil {
		return Pair{}, false, err
	}
	return pair, true, nil
}

// Sign returns a certificate in PEM for a key that stays with its owner (the key of a certificate
// request, whose signature the caller has checked). The subject and names come from the given
// Request, never from the owner. The certificate is back-dated by an hour and expires no later than
// the authority itself.
func (a *Authority) Sign(public crypto.PublicKey, r Request, life time.Duration) ([]byte, error) {
	der, err := a.sign(public, r, life)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func (a *Authority) sign(public crypto.PublicKey, r Request, life time.Duration) ([]byte, error) {
	if r.CN == "" || r.Usages == 0 {
		return nil, fmt.Errorf("certificate request %+v: a common name and a usage are required", r)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	now := a.now()
	end := now.Add(life)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.CN, Organization: r.Org},
		NotBefore:    now.Add(-backDate),
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  r.Usages.extended(),
	}
	template.DNSNames, template.IPAddresses = split(r.SANs)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", r.CN, err)
	}
	return der, nil
}

// serialNumber returns a random number: RFC 5280, 4.1.2.2 allows 20 octets, and a restore could
// reset a counter.
func serialNumber() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return n, nil
}

func (u Usage) extended() []x509.ExtKeyUsage {
	var out []x509.ExtKeyUsage
	if u&Client != 0 {
		out = append(out, x509.ExtKeyUsageClientAuth)
	}
	if u&Server != 0 {
		out = append(out, x509.ExtKeyUsageServerAuth)
	}
	return out
}

func split(sans []string) (names []string, addresses []net.IP) {
	for _, s := range sans {
		if ip := net.ParseIP(s); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, s)
		}
	}
	return names, addresses
}
