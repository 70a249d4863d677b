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
	// renewInterval is how often certificates are checked while the control plane runs. They are
	// renewed with four months left.
	renewInterval = 24 * time.Hour
	// restartTimeout bounds the wait for a component to become ready again, e.g. an etcd that replays
	// a long log.
	restartTimeout = 5 * time.Minute
)

// renewal renews certificates while the control plane runs and restarts, one by one, the components
// whose certificates have changed since they were started.
//
// In v1.37 all of them would reload changed files: serving certificates are watched, etcd reads its
// own at each handshake, and client-go checks the files that a kubeconfig names every five minutes.
// Components are restarted nevertheless: the kubelet's part is behind a feature gate, and the API
// server, the controller manager and the scheduler have a certificate for themselves that only a
// restart replaces (k8s.io/apiserver, serving_with_loopback.go: three years). This makes the API
// unavailable for about 15 s once in eight months, half of which etcd spends on disconnecting its
// clients; pods stay. regiond's own client follows its files without a restart.
type renewal struct {
	clock clock.Clock
	log   *slog.Logger
	// renew renews certificates that are due and returns their names.
	renew func() ([]string, error)
	// publish writes files that contain copies of certificates.
	publish func() error
	// users of certificates in the order in which they start.
	users      []user
	supervisor interface {
		// Restart returns when a new process of the component is ready.
		Restart(ctx context.Context, component string) error
	}
	// startedWith has the serial numbers of the certificates that each component was started with.
	startedWith map[string][]string
}

// user is a component with the certificates in its configuration.
type user struct {
	component string
	pairs     []pki.Pair
}

// users lists the certificates in each component's configuration; see package config. containerd
// has none.
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

// newRenewal is called after certificates are issued and before the components start.
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

// run checks every day until the context ends. There is no check at the start, which issues
// certificates before anything runs.
func (r *renewal) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(renewInterval):
		}
		if err := r.check(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("renew certificates; `regiond status` shows which one expires first", slog.Duration("retryIn", renewInterval), slog.Any("error", err))
		}
	}
}

// check renews certificates that are due and restarts their users. Failures are retried at the next
// check.
func (r *renewal) check(ctx context.Context) error {
	renewed, err := r.renew()
	if len(renewed) > 0 {
		r.log.Info("certificates renewed", slog.Any("certificates", renewed))
	}
	// Use the certificates that were renewed, even if others failed.
	err = errors.Join(err, r.publish())
	now, failed := serials(r.users)
	if failed != nil {
		return errors.Join(err, failed)
	}
	for _, component := range outdated(r.users, r.startedWith, now) {
		r.log.Info("restarting a component for its renewed certificates", slog.String("component", component))
		if failed := r.restart(ctx, component); failed != nil {
			return errors.Join(err, failed) // stop no other component while one does not come back
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

// outdated returns the components whose certificates have changed since they were started, in the
// order in which they start.
func outdated(users []user, startedWith, now map[string][]string) []string {
	var out []string
	for _, u := range users {
		if !slices.Equal(startedWith[u.component], now[u.component]) {
			out = append(out, u.component)
		}
	}
	return out
}

// serials reads the serial numbers of the certificates in each component's configuration.
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
				return nil, fmt.Errorf("certificate of %s: %s has no PEM block", u.component, pair.CertFile)
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
