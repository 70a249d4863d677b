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
	// UsedBy is the process that has it in its configuration. Empty if this process has not issued it:
	// it is a leftover, or was listed without a running regiond.
	UsedBy string `json:"usedBy,omitempty"`
	// NotBefore and NotAfter bound its validity.
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	// RenewFrom is when a third of its life is left: regiond renews it then. Zero for an authority's
	// own certificate, which is not renewed.
	RenewFrom time.Time `json:"renewFrom,omitzero"`
	// Authority is true for an authority's own certificate.
	Authority bool `json:"authority,omitempty"`
}

// overdue is how long after RenewFrom a certificate has to be renewed: regiond and agents look daily, and a
// host may be restarting.
const overdue = 3 * 24 * time.Hour

// expiring is how long before its end an authority that is not renewed is overdue: hosts have to be
// given another one meanwhile.
const expiring = 365 * 24 * time.Hour

// Overdue says whether the certificate should have been renewed by now, so that somebody has to find
// out why it was not.
func (c Certificate) Overdue(now time.Time) bool {
	if c.Authority {
		return now.After(c.NotAfter.Add(-expiring))
	}
	return now.After(c.RenewFrom.Add(overdue))
}

// folders of the authorities below the PKI's directory.
var folders = []string{".", "etcd", "front-proxy"}

// Inventory lists the certificates in a PKI's directory, sorted by expiry, earliest first. It reads
// them only: nothing is created, and regiond need not run.
func Inventory(dir string) ([]Certificate, error) {
	var all []Certificate
	for _, folder := range folders {
		certificates, err := inventory(dir, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, certificates...)
	}
	sortByExpiry(all)
	return all, nil
}

func inventory(root, folder string) ([]Certificate, error) {
	dir := filepath.Join(root, folder)
	files, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		return nil, fmt.Errorf("listing the certificates in %s: %w", dir, err)
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
			NotBefore: cert.NotBefore,
			NotAfter:  cert.NotAfter,
			RenewFrom: renewFrom(cert),
			Authority: cert.IsCA,
		})
	}
	return out, nil
}

// users of the certificates that this process has issued, by their names in the inventory.
func (p *PKI) users() map[string]string {
	out := map[string]string{}
	for i, a := range []*Authority{p.Cluster, p.Etcd, p.FrontProxy} {
		a.mu.Lock()
		for name, r := range a.issued {
			out[filepath.Join(folders[i], name)] = r.UsedBy
		}
		a.mu.Unlock()
	}
	return out
}

func sortByExpiry(c []Certificate) {
	slices.SortFunc(c, func(a, b Certificate) int {
		if d := a.NotAfter.Compare(b.NotAfter); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
}
