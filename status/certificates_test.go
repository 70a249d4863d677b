package status_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/status"
)

func expiring(name, used string, notAfter time.Time) pki.Certificate {
	return pki.Certificate{Name: name, UsedBy: used, Issuer: "regiond-ca", NotAfter: notAfter, RenewFrom: notAfter.AddDate(0, -4, 0)}
}

func TestCertificatesAreListed(t *testing.T) {
	day := func(n int) time.Time { return now.AddDate(0, 0, n) }
	all := status.ListCertificates([]pki.Certificate{
		expiring("kubelet", "kubelet", day(200)),
		expiring("etcd/peer", "etcd", day(20)),
		expiring("old", "", day(-5)),
		{Name: "ca", Issuer: "regiond-ca", Authority: true, NotAfter: day(3000)},
		{Name: "etcd/ca", Issuer: "regiond-etcd-ca", Authority: true, NotAfter: day(300)},
	}, map[string]hostkey.Record{
		"node1": {Keys: []string{"k"}, Issued: day(-1), Expires: day(-1).Add(hostkey.Validity)},
		"node2": {Keys: []string{"k"}, Issued: day(-80), Expires: day(-80).Add(hostkey.Validity)},
		"node3": {Keys: []string{"k"}, Issued: day(-100), Expires: day(-100).Add(hostkey.Validity)},
		"node4": {Issued: day(-1)}, // installed again, has not joined
	})
	var b bytes.Buffer
	if err := all.Table(&b, now); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")[1:]
	want := []struct{ name, used, note string }{
		{"agent", "regiond-node on node3", "regiond server readmit node3"},
		{"old", "-", "-"},
		{"agent", "regiond-node on node2", "overdue: is the host on?"},
		{"etcd/peer", "etcd", "overdue: see regiond status"},
		{"agent", "regiond-node on node1", "-"},
		{"kubelet", "kubelet", "-"},
		{"etcd/ca", "(authority)", "this version can't replace an authority"},
		{"ca", "(authority)", "-"},
	}
	if len(lines) != len(want) {
		t.Fatalf("got %d certificates, want %d:\n%s", len(lines), len(want), b.String())
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w.name+" ") || !strings.Contains(lines[i], " "+w.used+" ") || !strings.HasSuffix(lines[i], " "+w.note) {
			t.Errorf("line %d: got %q, want %+v", i, lines[i], w)
		}
	}
}

func TestCertificatesThatWereNotRenewedAreProblems(t *testing.T) {
	for _, tc := range []struct {
		what string
		pki.Certificate
		want string
	}{
		{"fresh", expiring("etcd/peer", "etcd", now.AddDate(1, 0, 0)), ""},
		{"due since yesterday", expiring("etcd/peer", "etcd", now.AddDate(0, 4, -1)), ""},
		{"overdue", expiring("etcd/peer", "etcd", now.AddDate(0, 0, 14)), "certificate etcd/peer (etcd) expires in 14d, on "},
		{"expired", expiring("etcd/peer", "etcd", now.AddDate(0, 0, -1)), "certificate etcd/peer (etcd) expired on "},
		{"of an earlier version", expiring("etcd/healthcheck", "", now.AddDate(0, 0, -1)), ""},
		{"authority", pki.Certificate{Name: "ca", Authority: true, NotAfter: now.AddDate(0, 11, 0)}, "the certificate of authority ca expires in "},
	} {
		r := status.Build(status.Facts{Now: now, DataDir: "/var/lib/regiond", Daemon: &daemon.Snapshot{Certificates: []pki.Certificate{tc.Certificate}}})
		got := strings.Join(r.ControlPlane.Problems, "; ")
		if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got problems %q, want %q", tc.what, got, tc.want)
		}
	}
}
