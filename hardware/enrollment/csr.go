package enrollment

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
)

// keyOf is the key of a certificate, or of a request for one.
func keyOf(spki []byte, subject pkix.Name) hostkey.Key {
	id := enroll.KeyID(spki)
	return hostkey.Key{ID: id, Named: slices.Contains(subject.Organization, enroll.KeyGroup(id))}
}

// decodeCSR decodes a certificate request and verifies that whoever made it holds its private key.
func decodeCSR(text string) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, refusal(enroll.ReasonMalformed, "csr: not exactly one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, refusal(enroll.ReasonMalformed, "csr: %v", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, refusal(enroll.ReasonMalformed, "csr: signature: %v", err)
	}
	return csr, nil
}

// parseCSR checks a request for a host's certificate and returns it with its key.
func parseCSR(text, hostname string) (csrPEM []byte, key hostkey.Key, err error) {
	malformed := func(format string, args ...any) ([]byte, hostkey.Key, error) {
		return nil, key, refusal(enroll.ReasonMalformed, "csr: "+format, args...)
	}
	csr, err := decodeCSR(text)
	if err != nil {
		return nil, key, err
	}
	key = keyOf(csr.RawSubjectPublicKeyInfo, csr.Subject)
	// Kubernetes signs the subject as it stands: it must be the host's, of this key or of none, and nothing more.
	if want := enroll.Subject(hostname, key.ID); !sameSubject(csr.Subject, want) && !sameSubject(csr.Subject, enroll.Subject(hostname, "")) {
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr.Raw}), key, nil
}

// sameSubject compares a subject with one that has a common name and organizations only.
func sameSubject(subject, want pkix.Name) bool {
	return subject.CommonName == want.CommonName && slices.Equal(subject.Organization, want.Organization) && len(subject.Names) == 1+len(want.Organization)
}
