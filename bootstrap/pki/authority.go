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

// Authority is a certificate authority (ECDSA P-256) and the directory that holds what it has issued. Its methods may be used
// by several goroutines.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  func() time.Time

	mu     sync.Mutex         // one Issue at a time, so that a key and its certificate always belong together
	issued map[string]Request // what Issue was asked for in this process, by name, for Renew; guarded by mu
}

// Usage says what a certificate may be used for.
type Usage int

// Usages of a certificate (RFC 5280, 4.2.1.12).
const (
	Client Usage = 1 << iota
	Server
)

// Request describes a certificate.
type Request struct {
	// CN is the subject's common name: the user name, when the API server reads the certificate.
	CN string
	// Org are the subject's organizations: the user's groups.
	Org []string
	// SANs are DNS names and IP addresses, told apart by their form.
	SANs []string
	// Usages is Client, Server or both.
	Usages Usage
}

// Pair is where an issued certificate and its key are.
type Pair struct{ CertFile, KeyFile string }

// loadAuthority reads an authority or creates it. A key without a certificate is what a creation cut half-way leaves; it has
// signed nothing yet and is used.
func loadAuthority(dir, name string, now func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the PKI's directory: %w", err)
	}
	// MkdirAll leaves the mode of a directory that is there already.
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
		return nil, fmt.Errorf("%s is there but its key %s is missing; restore the key from a backup", certFile, keyFile)
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
		MaxPathLenZero:        true, // signs leaves only
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

// Certificate is the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// CertificatePEM is the authority's own certificate in PEM, to be given to those who must believe it.
func (a *Authority) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// CertFile is the path of the authority's own certificate.
func (a *Authority) CertFile() string { return a.path("ca").CertFile }

// KeyFile is the path of the authority's private key.
func (a *Authority) KeyFile() string { return a.path("ca").KeyFile }

func (a *Authority) path(name string) Pair {
	return Pair{CertFile: filepath.Join(a.dir, name+".crt"), KeyFile: filepath.Join(a.dir, name+".key")}
}

// Issue makes sure that <name>.crt and <name>.key fit the request. A certificate that this
// authority signed for the same subject, names and usages and that has more than a third of its
// life left is kept; anything else is issued anew, with a new key. From then on it is Renew's to
// look after.
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

// ensure does what Issue says and tells whether it issued anew. The caller holds mu.
func (a *Authority) ensure(name string, r Request) (_ Pair, anew bool, _ error) {
	pair := a.path(name)
	if cert, err := readCertificate(pair.CertFile); err == nil && stillValid(cert, a.cert, r, a.now()) {
		// The key is renamed into place first, so after a crash between the two the old certificate sits beside a new key.
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
	// Both or none, as far as a full disk goes: running components read them again at any time.
	if err := writeFiles(private, pemFile(pair.CertFile, "CERTIFICATE", der)); err != nil {
		return Pair{}, false, err
	}
	return pair, true, nil
}

// Sign returns a certificate in PEM for a key that its owner keeps (the key of a certificate request, whose signature the caller
// has checked). The subject and names come from the request given here, never from the owner. It is back-dated by an hour and
// ends no later than the authority itself.
func (a *Authority) Sign(public crypto.PublicKey, r Request, life time.Duration) ([]byte, error) {
	der, err := a.sign(public, r, life)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func (a *Authority) sign(public crypto.PublicKey, r Request, life time.Duration) ([]byte, error) {
	if r.CN == "" || r.Usages == 0 {
		return nil, fmt.Errorf("certificate request %+v: a common name and a usage are needed", r)
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

// serialNumber is random: RFC 5280, 4.1.2.2 allows 20 octets, and the authority keeps no counter that a restore could set back.
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
