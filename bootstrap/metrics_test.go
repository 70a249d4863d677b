package bootstrap

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/bootstrap/supervisor"
)

func TestMetrics(t *testing.T) {
	s := daemon.Snapshot{
		Components: []supervisor.Component{{Name: "etcd", Ready: true, Restarts: 2}, {Name: "kubelet"}},
		Certificates: []pki.Certificate{{Name: "etcd/peer", UsedBy: "etcd", NotAfter: time.Unix(1800000000, 0)}, {Name: "old", NotAfter: time.Unix(1, 0)},
			{Name: "ca", Authority: true, NotAfter: time.Unix(2000000000, 0)}},
		Problems: []string{"credentials of rack-1"}, Waiting: "spec.networks: changed",
	}
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(metrics{read: func() daemon.Snapshot { return s }, dataDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	err := testutil.GatherAndCompare(r, strings.NewReader(`
# HELP regiond_certificate_expiry_timestamp_seconds When a certificate of the control plane that is in use, or of an authority, expires, in seconds since 1970.
# TYPE regiond_certificate_expiry_timestamp_seconds gauge
regiond_certificate_expiry_timestamp_seconds{certificate="ca"} 2e+09
regiond_certificate_expiry_timestamp_seconds{certificate="etcd/peer"} 1.8e+09
# HELP regiond_component_ready 1 if a component of the control plane is ready.
# TYPE regiond_component_ready gauge
regiond_component_ready{component="etcd"} 1
regiond_component_ready{component="kubelet"} 0
# HELP regiond_component_restarts_total Restarts of a component of the control plane since regiond started.
# TYPE regiond_component_restarts_total counter
regiond_component_restarts_total{component="etcd"} 2
regiond_component_restarts_total{component="kubelet"} 0
# HELP regiond_problems Problems that regiond status shows, which regiond keeps retrying.
# TYPE regiond_problems gauge
regiond_problems 2
`), "regiond_certificate_expiry_timestamp_seconds", "regiond_component_ready", "regiond_component_restarts_total", "regiond_problems")
	if err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(r, "regiond_data_dir_size_bytes", "regiond_data_dir_free_bytes"); err != nil || n != 2 {
		t.Errorf("got %d metrics of the disk, %v, want 2", n, err)
	}
}
