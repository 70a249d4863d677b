//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"time"

	"regiond.dev/regiond/status"
	"regiond.dev/regiond/status/monitoring"
)

// assertCertificates: the one list has the control plane's certificates, with their users, and those
// of the hosts' agents.
func assertCertificates(l *Lab, hosts ...string) {
	l.Helper()
	used := map[string]string{}
	for _, c := range decode[status.Certificates](l, l.Seed("regiond", "certificate", "list", "-o", "json")) {
		used[c.Name+" "+c.Host] = c.UsedBy
		if c.Overdue(time.Now()) || time.Until(c.NotAfter) < 80*24*time.Hour {
			l.Errorf("%s %s: got one that expires on %s, want 80 days at least of what was signed in this lab", c.Name, c.Host, c.NotAfter)
		}
	}
	want := map[string]string{"etcd/peer ": "etcd", "kube-apiserver ": "kube-apiserver", "kubelet-client ": "kubelet", "registry ": "regiond", "enroll ": "regiond"}
	for _, h := range hosts {
		want["agent "+h] = "regiond-node on " + h
	}
	for name, by := range want {
		if used[name] != by {
			l.Errorf("certificate %q: got used by %q, want %q; all: %v", name, used[name], by, used)
		}
	}
}

// assertMetrics: what the alerts look at is served.
func assertMetrics(l *Lab) {
	l.Helper()
	served := l.Seed("curl", "--silent", "--fail", "--noproxy", "*", "http://127.0.0.1:9440/metrics")
	for _, m := range regexp.MustCompile(`regiond_[a-z_]+`).FindAllString(monitoring.Alerts, -1) {
		if m == "regiond_openstack_errors_total" || m == "regiond_server_phase" {
			continue // are there when an error was counted, and for servers, which nodes in namespaces are not
		}
		if !strings.Contains(served, "\n"+m) {
			l.Errorf("got no metric %s, want it, since an alert looks at it", m)
		}
	}
}
