package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"k8s.io/utils/clock"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
)

const (
	// renewInterval is how often certificates are looked at while the control plane runs. They are renewed with four months left.
	renewInterval = 24 * time.Hour
	// restartTimeout bounds the wait for one component to become ready again: an etcd that replays a long log.
	restartTimeout = 5 * time.Minute
)

// renewal renews certificates while the control plane runs and restarts, one after the other, the
// components whose certificates are others than those they were started with.
//
// In v1.37 all of them would read changed files again: serving certificates are watched, etcd reads
// its own at each handshake, and client-go looks every five minutes at the files that a kubeconfig
// names. The restart does not hang on that: the kubelet's part is behind a feature gate, and the
// API server, the controller manager and the scheduler hold a certificate for themselves that only
// a restart replaces (k8s.io/apiserver, serving_with_loopback.go: three years). It costs about 15 s
// of the API, half of them for etcd to take leave of its clients, once in eight months; pods stay.
// regiond's own client is what follows its files without a restart.
type renewal struct {
	clock clock.Clock
	log   *slog.Logger
	// renew issues what is due and names it.
	renew func() ([]string, error)
	// publish writes files that hold copies of certificates.
	publish func() error
	// users of certificates in their order of start.
	users      []user
	supervisor interface {
		// Restart returns when a new process of the component is ready.
		Restart(ctx context.Context, component string) error
	}
	// startedWith are the serial numbers that each component was started with.
	startedWith map[string][]string
}

// user is a component and the certificates it is configured with.
type user struct {
	component string
	pairs     []pki.Pair
}

// users says which component is configured with which certificates; see package config. containerd has none.
func users(c config.Certificates) []user {
	return []user{
		{"etcd", []pki.Pair{c.EtcdServer, c.EtcdPeer}},
		{"kube-apiserver", []pki.Pair{c.APIServer, c.APIServerKubelet, c.EtcdClient, c.FrontProxy}},
		{"kube-controller-manager", []pki.Pair{c.ControllerManager}},
		{"kube-scheduler", []pki.Pair{c.Scheduler}},
		{"kubelet", []pki.Pair{c.Kubelet, c.KubeletClient}},
		{"kube-proxy", []pki.Pair{c.Proxy}},
	}
}

// newRenewal is called between the issue of certificates and the start of the components.
func (c *Cluster) newRenewal() (*renewal, error) {
	r := &renewal{
		clock: c.config.Clock, log: c.config.Log,
		renew:      c.config.PKI.Renew,
		publish:    func() error { return writeKubeconfigs(c.node) },
		users:      users(c.node.Certificates),
		supervisor: c.supervisor,
	}
	var err error
	r.startedWith, err = serials(r.users)
	return r, err
}

// run looks every day until the context ends. The first look is the start itself, which issues before anything runs.
func (r *renewal) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(renewInterval):
		}
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("certificates are not all renewed and in use; `regiond status` shows which ends first", slog.Duration("retryIn", renewInterval), slog.Any("error", err))
		}
	}
}

// look renews what is due and restarts those that use it. What it could not do is left for the next look.
func (r *renewal) look(ctx context.Context) error {
	renewed, err := r.renew()
	if len(renewed) > 0 {
		r.log.Info("certificates renewed", slog.Any("certificates", renewed))
	}
	// What could be renewed is to be used, whatever else failed.
	err = errors.Join(err, r.publish())
	now, failed := serials(r.users)
	if failed != nil {
		return errors.Join(err, failed)
	}
	for _, component := range outdated(r.users, r.startedWith, now) {
		r.log.Info("restarting a component for its renewed certificates", slog.String("component", component))
		if failed := r.restart(ctx, component); failed != nil {
			return errors.Join(err, failed) // no more of them go down while one does not come back
		}
		r.startedWith[component] = now[component]
	}
	return err
}

func (r *renewal) restart(ctx context.Context, component string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	return r.supervisor.Restart(ctx, component)
}

// outdated names, in their order of start, the components that were started with other certificates than there are now.
func outdated(users []user, startedWith, now map[string][]string) []string {
	var out []string
	for _, u := range users {
		if !slices.Equal(startedWith[u.component], now[u.component]) {
			out = append(out, u.component)
		}
	}
	return out
}

// serials reads the serial numbers of the certificates that each component is configured with.
func serials(users []user) (map[string][]string, error) {
	out := map[string][]string{}
	for _, u := range users {
		for _, pair := range u.pairs {
			content, err := os.ReadFile(pair.CertFile)
			if err != nil {
				return nil, fmt.Errorf("certificate of %s: %w", u.component, err)
			}
			block, _ := pem.Decode(content)
			if block == nil {
				return nil, fmt.Errorf("certificate of %s: %s holds no PEM block", u.component, pair.CertFile)
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("certificate of %s: %s: %w", u.component, pair.CertFile, err)
			}
			out[u.component] = append(out[u.component], certificate.SerialNumber.Text(16))
		}
	}
	return out, nil
}
