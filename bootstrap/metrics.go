package bootstrap

import (
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/bootstrap/daemon"
)

// metrics of the control plane on this host, collected from what `regiond status` shows.
type metrics struct {
	read    func() daemon.Snapshot
	dataDir string
}

var (
	componentReady = prometheus.NewDesc("regiond_component_ready", "1 if a component of the control plane is ready.", []string{"component"}, nil)
	componentStart = prometheus.NewDesc("regiond_component_restarts_total", "Restarts of a component of the control plane since regiond started.",
		[]string{"component"}, nil)
	certificateEnd = prometheus.NewDesc("regiond_certificate_expiry_timestamp_seconds",
		"When a certificate of the control plane that is in use, or of an authority, expires, in seconds since 1970.", []string{"certificate"}, nil)
	problems = prometheus.NewDesc("regiond_problems", "Problems that regiond status shows, which regiond keeps retrying.", nil, nil)
	diskSize = prometheus.NewDesc("regiond_data_dir_size_bytes", "Size of the file system of the data directory.", nil, nil)
	diskFree = prometheus.NewDesc("regiond_data_dir_free_bytes", "Bytes that are free there.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{componentReady, componentStart, certificateEnd, problems, diskSize, diskFree} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := m.read()
	for _, c := range s.Components {
		ready := 0.0
		if c.Ready {
			ready = 1
		}
		gauge(componentReady, ready, c.Name)
		out <- prometheus.MustNewConstMetric(componentStart, prometheus.CounterValue, float64(c.Restarts), c.Name)
	}
	for _, c := range s.Certificates {
		if c.UsedBy != "" || c.Authority {
			gauge(certificateEnd, float64(c.NotAfter.Unix()), c.Name)
		}
	}
	count := len(s.Problems)
	if s.Waiting != "" {
		count++
	}
	gauge(problems, float64(count))
	var fs unix.Statfs_t
	if unix.Statfs(m.dataDir, &fs) == nil {
		gauge(diskSize, float64(fs.Blocks)*float64(fs.Bsize))
		gauge(diskFree, float64(fs.Bavail)*float64(fs.Bsize))
	}
}
