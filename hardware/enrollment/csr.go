package enrollment

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"

	"regiond.dev/regiond/machine/enroll"
)

// publicKey names a public key by the SHA-256 of its SubjectPublicKeyInfo in hex.
func publicKey(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:])
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

// parseCSR checks a request for a host's certificate and returns it with the name of its public key.
func parseCSR(text, hostname string) (csrPEM []byte, key string, err error) {
	malformed := func(format string, args ...any) ([]byte, string, error) {
		return nil, "", refusal(enroll.ReasonMalformed, "csr: "+format, args...)
	}
	csr, err := decodeCSR(text)
	if err != nil {
		return nil, "", err
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr.Raw}), publicKey(csr.RawSubjectPublicKeyInfo), nil
}
