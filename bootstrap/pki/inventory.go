package pki

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Certificate is one entry of the inventory.
type Certificate struct {
	// Name is the file's path below the PKI's directory without its extension, e.g. etcd/server.
	Name string `json:"name"`
	// Subject is the common name.
	Subject string `json:"subject"`
	// Issuer is the common name of the authority.
	Issuer string `json:"issuer"`
	// NotAfter is when the certificate expires.
	NotAfter time.Time `json:"notAfter"`
	// Authority is true for an authority's own certificate.
	Authority bool `json:"authority,omitempty"`
}

func (a *Authority) inventory(root string) ([]Certificate, error) {
	files, err := filepath.Glob(filepath.Join(a.dir, "*.crt"))
	if err != nil {
		return nil, fmt.Errorf("listing the certificates in %s: %w", a.dir, err)
	}
	var out []Certificate
	for _, f := range files {
		cert, err := readCertificate(f)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, f)
		if err != nil {
			return nil, fmt.Errorf("naming %s below %s: %w", f, root, err)
		}
		out = append(out, Certificate{
			Name:      strings.TrimSuffix(name, ".crt"),
			Subject:   cert.Subject.CommonName,
			Issuer:    cert.Issuer.CommonName,
			NotAfter:  cert.NotAfter,
			Authority: cert.IsCA,
		})
	}
	return out, nil
}

func sortByExpiry(c []Certificate) {
	slices.SortFunc(c, func(a, b Certificate) int {
		if d := a.NotAfter.Compare(b.NotAfter); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
}
