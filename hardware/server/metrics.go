package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"regiond.dev/regiond/region"
)

type registerer = prometheus.Registerer

type metrics struct {
	asked  *prometheus.CounterVec
	orders *prometheus.CounterVec
	phases *prometheus.GaugeVec
}

func (m *metrics) register(r registerer) error {
	m.asked = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "regiond_bmc_observations_total", Help: "Observations of BMCs by their outcome."}, []string{"outcome"})
	m.orders = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "regiond_bmc_orders_total", Help: "Power actions by kind and result."}, []string{"action", "result"})
	m.phases = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "regiond_server_phase", Help: "1 for the phase that each server is in."}, []string{"server", "phase"})
	for _, c := range []prometheus.Collector{m.asked, m.orders, m.phases} {
		if r == nil {
			break
		}
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) phase(server string, phase region.ServerPhase) {
	m.gone(server)
	m.phases.WithLabelValues(server, string(phase)).Set(1)
}

func (m *metrics) gone(server string) {
	m.phases.DeletePartialMatch(prometheus.Labels{"server": server})
}
