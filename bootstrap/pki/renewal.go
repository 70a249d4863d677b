package pki

import (
	"crypto/x509"
	"slices"
	"time"
)

// stillValid reports whether an existing certificate still fits a request: signed by this
// authority, same subject, names and usages, and more than a third of its lifetime left, so that a
// host that starts once in eight months still renews in time.
func stillValid(cert, authority *x509.Certificate, r Request, now time.Time) bool {
	if cert.CheckSignatureFrom(authority) != nil {
		return false
	}
	if cert.Subject.CommonName != r.CN || !same(cert.Subject.Organization, r.Org) || !same(names(cert), r.SANs) {
		return false
	}
	if !slices.Equal(cert.ExtKeyUsage, r.Usages.extended()) {
		return false
	}
	if now.Before(cert.NotBefore) {
		return false // the clock was ahead when it was issued
	}
	return now.Before(renewFrom(cert))
}

// renewFrom returns when a third of a certificate's life is left. Zero for an authority's own
// certificate.
func renewFrom(cert *x509.Certificate) time.Time {
	if cert.IsCA {
		return time.Time{}
	}
	return cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3)
}

// names returns a certificate's subject alternative names in the form of Request.
func names(cert *x509.Certificate) []string {
	out := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// same compares two lists as sets: the order of a SET in DER and of names is irrelevant.
func same(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
