package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type metrics struct {
	gates  *prometheus.GaugeVec
	probes *prometheus.HistogramVec
	errors *prometheus.CounterVec
}

func (m *metrics) register(r prometheus.Registerer) error {
	m.gates = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "regiond_openstack_condition",
		Help: "1 if a condition of an OpenStack cluster is true, its gates among them."}, []string{"cluster", "condition"})
	m.probes = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "regiond_openstack_probe_seconds",
		Help: "Time that the proof of a gate took.", Buckets: []float64{0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 45}}, []string{"cluster", "gate", "result"})
	m.errors = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "regiond_openstack_errors_total",
		Help: "Turns of an OpenStack cluster that failed, by what failed."}, []string{"cluster", "step"})
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.gates, m.probes, m.errors} {
		r.Unregister(c) // that of an earlier attempt
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) conditions(cluster string, all []metav1.Condition) {
	for _, c := range all {
		v := 0.0
		if c.Status == metav1.ConditionTrue {
			v = 1
		}
		m.gates.WithLabelValues(cluster, c.Type).Set(v)
	}
}

func (m *metrics) probed(cluster, gate string, took time.Duration, err error) {
	result := "passed"
	if err != nil {
		result = "failed"
	}
	m.probes.WithLabelValues(cluster, gate, result).Observe(took.Seconds())
}

func (m *metrics) failed(cluster, step string) { m.errors.WithLabelValues(cluster, step).Inc() }

func (m *metrics) gone(cluster string) {
	of := prometheus.Labels{"cluster": cluster}
	m.gates.DeletePartialMatch(of)
	m.probes.DeletePartialMatch(of)
	m.errors.DeletePartialMatch(of)
}
