package enrollment

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
}

func (m *metrics) register(r prometheus.Registerer) error {
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "regiond_enroll_requests_total", Help: "Requests of installers and agents by path and outcome (OK or reason of refusal)."}, []string{"path", "outcome"})
	m.tokens = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "regiond_enroll_tokens_total", Help: "Tokens by kind and what was done with them."}, []string{"kind", "event"})
	for _, c := range []prometheus.Collector{m.requests, m.tokens} {
		if r == nil {
			break
		}
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
