package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/hardware/hostkey"
)

// Certificates of a region, those that expire first at the top.
type Certificates []ListedCertificate

// ListedCertificate is one certificate of a region.
type ListedCertificate struct {
	pki.Certificate
	// Host whose agent has it; empty for those of the control plane.
	Host string `json:"host,omitempty"`
}

// ListCertificates lists the control plane's certificates and those that were last signed for the
// agents of hosts.
func ListCertificates(own []pki.Certificate, hosts map[string]hostkey.Record) Certificates {
	var all Certificates
	for _, c := range own {
		all = append(all, ListedCertificate{Certificate: c})
	}
	for host, r := range hosts {
		if len(r.Keys) == 0 { // an installation was ordered, and its agent has not joined
			continue
		}
		all = append(all, ListedCertificate{Host: host, Certificate: pki.Certificate{
			Name: "agent", Subject: "system:node:" + host, Issuer: pki.ClusterAuthority, UsedBy: "regiond-node on " + host,
			NotBefore: r.Issued, NotAfter: r.Expires, RenewFrom: r.Expires.Add(-hostkey.Validity / 3)}})
	}
	slices.SortFunc(all, func(a, b ListedCertificate) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host))
	})
	return all
}

// Table writes the list for people.
func (all Certificates) Table(out io.Writer, now time.Time) error {
	w := newTable(now)
	w.row("CERTIFICATE", "USED BY", "SIGNED BY", "EXPIRES", "IN", "RENEWED FROM", "NOTE")
	for _, c := range all {
		used, renewed := dash(c.UsedBy), c.RenewFrom.UTC().Format(time.DateOnly)
		if c.Authority {
			used, renewed = "(authority)", "-"
		}
		w.row(c.Name, used, c.Issuer, c.NotAfter.UTC().Format(time.DateOnly), left(c.NotAfter, now), renewed, dash(c.note(now)))
	}
	return w.writeTo(out)
}

// note says what somebody has to do about a certificate.
func (c ListedCertificate) note(now time.Time) string {
	switch {
	case c.Host == "" && c.UsedBy == "" && !c.Authority, !c.Overdue(now):
		return "" // nothing presents it, or it is well
	case c.Host != "" && !now.Before(c.NotAfter):
		return "regiond server readmit " + c.Host
	case c.Host != "":
		return "overdue: is the host on?"
	case c.Authority:
		return "this version can't replace an authority"
	}
	return "overdue: see regiond status"
}

// certificateProblems says which of the control plane's certificates should have been renewed.
func certificateProblems(f Facts) (problems []string) {
	if f.Daemon == nil {
		return nil
	}
	for _, c := range f.Daemon.Certificates {
		if !c.Overdue(f.Now) {
			continue
		}
		expires := fmt.Sprintf("expires in %s, on %s", left(c.NotAfter, f.Now), c.NotAfter.UTC().Format(time.DateOnly))
		if !f.Now.Before(c.NotAfter) {
			expires = "expired on " + c.NotAfter.UTC().Format(time.DateOnly)
		}
		switch {
		case c.Authority:
			problems = append(problems, fmt.Sprintf("the certificate of authority %s %s; this version can't replace an authority", c.Name, expires))
		case c.UsedBy != "": // or nothing presents it
			problems = append(problems, fmt.Sprintf("certificate %s (%s) %s and was not renewed, although it was due on %s; see %s, then restart regiond",
				c.Name, c.UsedBy, expires, c.RenewFrom.UTC().Format(time.DateOnly), datadir.Log.In(f.DataDir, "regiond.log")))
		}
	}
	return problems
}

// left is the time until a certificate expires.
func left(notAfter, now time.Time) string {
	if now.Before(notAfter) {
		return duration.HumanDuration(notAfter.Sub(now))
	}
	return "expired"
}
