package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"

	"regiond.dev/regiond/components/broker"
	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/computehost"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/span"
)

// Prober asks real services.
type Prober struct{ Log *slog.Logger }

// Login has a token issued.
func (Prober) Login(ctx context.Context, t gate.Target) (*cloud.Session, error) {
	return gate.Keystone(ctx, t)
}

// Probe passes one gate.
func (p Prober) Probe(ctx context.Context, name string, t gate.Target, s *cloud.Session) error {
	switch name {
	case region.ConditionMariaDB:
		return gate.MariaDB(ctx, t)
	case region.ConditionRabbitMQ:
		return gate.RabbitMQ(ctx, t)
	case region.ConditionMemcached:
		return gate.Memcached(ctx, t)
	case region.ConditionKeystone:
		return nil // Login is the proof
	case region.ConditionPlacement:
		return gate.Placement(ctx, t, s)
	case region.ConditionGlance:
		if err := gate.Glance(ctx, t, s); err != nil {
			return err
		}
		if err := gate.PurgeImages(ctx, t); err != nil {
			p.Log.Warn("rows of the probe's deleted images remain in Glance's database", slog.Any("error", err))
		}
		return nil
	case region.ConditionNova:
		return gate.Nova(ctx, t, s)
	case region.ConditionNeutron:
		return gate.Neutron(ctx, t, s)
	}
	return fmt.Errorf("there is no gate %q", name)
}

// Ensure brings the catalogue to what is declared.
func (Prober) Ensure(ctx context.Context, s *cloud.Session, c cloud.Catalogue) ([]string, error) {
	return s.Ensure(ctx, c)
}

// EnsureHostUsers brings the users of compute hosts to what is desired.
func (Prober) EnsureHostUsers(ctx context.Context, t gate.Target, s *cloud.Session, h HostUsers) ([]string, error) {
	if t.Management == "" {
		return nil, errors.New("the Service rabbitmq-management is not there yet")
	}
	changed, err := s.EnsureHostUsers(ctx, h.Keystone)
	more, errBroker := broker.Admin{Address: t.Management, User: t.Broker.User, Password: t.Broker.Password}.Ensure(ctx, h.RabbitMQ, h.Keystone.Keep)
	return slices.Concat(changed, more), errors.Join(err, errBroker)
}

// Prune removes endpoints that are no longer declared.
func (Prober) Prune(ctx context.Context, s *cloud.Session, c cloud.Catalogue) ([]string, error) {
	return s.Prune(ctx, c)
}

// Hosts are what Nova and Neutron know.
func (Prober) Hosts(ctx context.Context, t gate.Target, s *cloud.Session) (map[string]gate.Host, error) {
	return gate.Hosts(ctx, t, s)
}

// Ask what a cluster knows of a host.
func (Prober) Ask(ctx context.Context, t gate.Target, s *cloud.Session, cluster, host string) (*computehost.Cloud, error) {
	return computehost.Ask(ctx, t, s, cluster, host)
}

// Close disables the compute service of a host.
func (Prober) Close(ctx context.Context, c *computehost.Cloud, host, reason string) error {
	return c.Close(ctx, host, reason, func(string) {})
}

// Open enables a compute service.
func (Prober) Open(ctx context.Context, t gate.Target, s *cloud.Session, service string) error {
	return services.Update(ctx, t.Clients(s).Nova, service, services.UpdateOpts{Status: services.ServiceEnabled}).Err
}

// Forget deletes what a cluster knows of a host.
func (Prober) Forget(ctx context.Context, c *computehost.Cloud, host string) error {
	return c.Forget(ctx, host, func(string) {})
}

// needsToken says whether a gate's probe is given a session. Keystone's makes it.
func needsToken(gate string) bool {
	return service.Of(gate).API != nil && gate != region.ConditionKeystone
}

// probe passes the gates that are due, side by side, and enters what came of it into the facts.
func (t *reconciliation) probe(ctx context.Context, due []string) {
	if len(due) == 0 || !t.reachable {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, gate.Timeout)
	defer cancel()
	if slices.ContainsFunc(due, needsToken) {
		t.login(ctx)
	}
	var wg sync.WaitGroup
	results := make([]Probe, len(due))
	session := t.seen.session // Keystone's proof replaces it while the others run
	for i, name := range due {
		wg.Go(func() { results[i] = t.pass(ctx, name, session) })
	}
	wg.Wait()
	if ctx.Err() == context.Canceled {
		return // regiond stops: what failed says nothing
	}
	for i, name := range due {
		t.seen.probes[name], t.facts.Probes[name] = results[i], results[i]
		if results[i].Err == "" {
			t.seen.thorough[name] = results[i].Of
		}
	}
}

// login replaces the session if there is none or it ends soon. A failure is told by the probes that need it.
func (t *reconciliation) login(ctx context.Context) {
	if !gate.Expiring(t.seen.session, t.Now()) {
		return
	}
	s, err := t.Cloud.Login(ctx, t.target)
	if err != nil {
		t.log.Warn("keystone issued no token", slog.Any("error", err))
		s = nil
	}
	t.seen.session = s
}

func (t *reconciliation) pass(ctx context.Context, name string, s *cloud.Session) Probe {
	begin := t.Now()
	of := t.fingerprint(name)
	ctx, done := span.Start(ctx, "gate "+name, t.cluster.Name)
	err := t.prove(ctx, name, of, s)
	done(err)
	end := t.Now()
	t.metrics.probed(t.cluster.Name, name, end.Sub(begin), err)
	p := Probe{Of: of, Time: end}
	if err != nil {
		p.Err = err.Error()
		p.Failures = 1
		if last := t.seen.probes[name]; last.Of == p.Of && last.Err != "" {
			p.Failures += last.Failures
		}
		var ambiguous *cloud.AmbiguousError
		p.Terminal = errors.As(err, &ambiguous)
		t.log.Warn("gate not passed", slog.String("gate", name), slog.Any("error", err))
	}
	return p
}

// prove passes a gate: thoroughly, unless this process has passed it so since what is proved, by its
// fingerprint, has changed.
func (t *reconciliation) prove(ctx context.Context, name, of string, s *cloud.Session) error {
	target := t.target
	target.Thorough = t.seen.thorough[name] != of
	switch {
	case name == region.ConditionKeystone:
		return t.proveKeystone(ctx, of)
	case needsToken(name) && s == nil:
		return errors.New("keystone issued no token; see the condition " + region.ConditionKeystone)
	}
	return t.Cloud.Probe(ctx, name, target, s)
}

// proveKeystone always has a new token issued, and keeps it for the other gates.
func (t *reconciliation) proveKeystone(ctx context.Context, of string) error {
	s, err := t.Cloud.Login(ctx, t.target)
	if err != nil {
		return err
	}
	if t.state != nil {
		want := Catalogue(t.cluster, t.state.Values.Lookup)
		want.Verified = t.seen.ensured == of
		changed, err := t.Cloud.Ensure(ctx, s, want)
		for _, c := range changed {
			t.log.Info("keystone changed", slog.String("change", c))
		}
		if err != nil {
			return err
		}
		t.seen.ensured = of
	}
	t.seen.session = s
	return nil
}
