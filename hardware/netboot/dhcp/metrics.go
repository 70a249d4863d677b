package dhcp

import "github.com/prometheus/client_golang/prometheus"

// metrics of the server.
type metrics struct {
	requests    *prometheus.CounterVec
	replies     *prometheus.CounterVec
	drops       *prometheus.CounterVec
	unsupported *prometheus.CounterVec
	conflicts   prometheus.Counter
	exhausted   prometheus.Counter
}

func newMetrics(r prometheus.Registerer, leases func() float64) (*metrics, error) {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "regiond", Subsystem: "dhcp", Name: name, Help: help}
	}
	m := &metrics{
		requests:    prometheus.NewCounterVec(opts("requests_total", "DHCP messages received, by type."), []string{"type"}),
		replies:     prometheus.NewCounterVec(opts("replies_total", "DHCP messages sent, by type."), []string{"type"}),
		drops:       prometheus.NewCounterVec(opts("drops_total", "DHCP packets that were not answered, by reason."), []string{"reason"}),
		unsupported: prometheus.NewCounterVec(opts("unsupported_architecture_total", "Netboot requests from firmware that no boot loader exists for, by option 93."), []string{"architecture"}),
		conflicts:   prometheus.NewCounter(opts("conflicts_total", "Addresses found in use by a stranger, by ARP or DHCPDECLINE.")),
		exhausted:   prometheus.NewCounter(opts("exhausted_total", "DISCOVERs that no address was left for.")),
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "regiond", Subsystem: "dhcp", Name: "leases", Help: "Addresses leased now."}, leases)
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.replies, m.drops, m.unsupported, m.conflicts, m.exhausted, gauge} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
