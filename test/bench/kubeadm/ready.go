package kubeadm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/test/lab"
)

const (
	readyPoll  = 100 * time.Millisecond
	readyLimit = 5 * time.Minute
)

// health endpoints of what must be healthy. They are asked from within the host.
var health = []string{
	"https://" + netip.AddrPortFrom(lab.SeedAddress, config.APIServerPort).String() + "/readyz",
	fmt.Sprintf("https://127.0.0.1:%d/healthz", config.ControllerManagerPort),
	fmt.Sprintf("https://127.0.0.1:%d/healthz", config.SchedulerPort),
}

// proxyHealth is asked after the start: with kubeadm, kube-proxy is what comes last.
var proxyHealth = fmt.Sprintf("http://127.0.0.1:%d/healthz", config.ProxyHealthPort)

// observer of a control plane from within its host, the same for both.
type observer struct {
	lab  lab.Lab
	http *http.Client
	api  client.Client
}

func newObserver(l lab.Lab) *observer {
	return &observer{lab: l, http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: l.SeedNetwork().Dial,
		// kubeadm's controller manager and scheduler have certificates that nobody signed.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}}
}

// until waits until nothing is left to wait for, and returns when that was. ended tells when what
// is waited for can't come any more.
func until(ctx context.Context, waits func(context.Context) error, ended <-chan error) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		why := waits(ctx)
		if why == nil {
			return time.Now(), nil
		}
		select {
		case err := <-ended:
			if err != nil {
				return time.Time{}, fmt.Errorf("%w, while: %w", err, why)
			}
			ended = nil // in order
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%w: %w", ctx.Err(), why)
		case <-time.After(readyPoll):
		}
	}
}

// controlPlane says what the control plane waits for: its components are healthy, its node is Ready
// and can be given pods.
func (o *observer) controlPlane(ctx context.Context) error {
	for _, url := range health {
		if err := o.get(ctx, url); err != nil {
			return err
		}
	}
	if o.api == nil {
		api, err := o.lab.Client()
		if err != nil {
			return err
		}
		o.api = api
	}
	var nodes corev1.NodeList
	if err := o.api.List(ctx, &nodes); err != nil {
		return err
	}
	return nodeWaits(nodes.Items)
}

func nodeWaits(nodes []corev1.Node) error {
	if len(nodes) == 0 {
		return errors.New("no node has registered")
	}
	for _, n := range nodes {
		ready := false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		if !ready {
			return fmt.Errorf("node %s is not Ready", n.Name)
		}
		for _, t := range n.Spec.Taints {
			if t.Key == corev1.TaintNodeNotReady {
				return fmt.Errorf("node %s has the taint %s", n.Name, t.Key)
			}
		}
	}
	return nil
}

func (o *observer) proxy(ctx context.Context) error { return o.get(ctx, proxyHealth) }

func (o *observer) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := o.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
