package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/node/apply"
	"regiond.dev/regiond/node/tunnel"
	"regiond.dev/regiond/region"
)

// How often what is done.
const (
	heartbeatEvery = 10 * time.Second
	leaseDuration  = 40 * time.Second
	observeEvery   = 30 * time.Second
	// compareEvery is how often the Host is read, so that a status that was wiped is filled again.
	compareEvery = time.Minute
	// logEvery limits the log while the API server is away for hours.
	logEvery = 5 * time.Minute
)

// Config of the agent.
type Config struct {
	// DataDir is the data partition, normally identity.MountPoint. It holds the identity, and keys.
	DataDir string
	// StateFile is where the agent leaves its State for `healthy`.
	StateFile string
	// Version of the agent.
	Version  string
	Observer Observer
	// Services of the host, which the agent configures. Nil: it only reports.
	Services apply.Services
	// ReloadNetwork has systemd-networkd read its files again.
	ReloadNetwork func(context.Context) error
	// RunFile is where records of processes are kept.
	RunFile string
	// Root of the file system that is configured, / but in tests.
	Root string
	// Tunnels tries the ways to other hosts; it is given what came of that before, and returns nil
	// if there are none. It MUST return within half of the time that a heartbeat lasts. Nil: nothing
	// is tried.
	Tunnels func(ctx context.Context, before *region.HostTunnels) (*region.HostTunnels, error)
	// HeartbeatEvery, ObserveEvery, CompareEvery and TunnelsEvery default to 10 s, 30 s, 1 min and 10 min.
	HeartbeatEvery, ObserveEvery, CompareEvery, TunnelsEvery time.Duration
	Now                                                      func() time.Time
	Log                                                      *slog.Logger
}

// Agent of one host.
type Agent struct {
	Config
	id          identity.Identity
	credentials *credentials
	api         *kubernetes

	// Of the loop only:
	reported region.HostStatus
	known    bool // reported is what the API server holds
	observed Observation
	machine  *inventory.Inventory
	refused  refusedInventory
	tunnels  tunnels
	state    State
	quiet    quiet

	// Between the loop and what holds the host to its configuration:
	applier *apply.Applier
	reports chan apply.Report
	said    apply.Report // the last one
	watched atomic.Pointer[error]
}

// New reads the identity. Nothing is sent yet.
func New(c Config) (*Agent, error) {
	if c.DataDir == "" || c.StateFile == "" || c.Log == nil {
		return nil, errors.New("agent: DataDir, StateFile and Log are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HeartbeatEvery == 0 {
		c.HeartbeatEvery = heartbeatEvery
	}
	if c.ObserveEvery == 0 {
		c.ObserveEvery = observeEvery
	}
	if c.CompareEvery == 0 {
		c.CompareEvery = compareEvery
	}
	if c.TunnelsEvery == 0 {
		c.TunnelsEvery = tunnel.Every
	}
	id, err := ReadIdentity(filepath.Join(c.DataDir, identity.File))
	if err != nil {
		return nil, err
	}
	a := &Agent{Config: c, id: id}
	a.Log = c.Log.With(slog.String("host", id.Hostname))
	a.credentials = &credentials{dir: c.DataDir, id: id, systemUUID: c.Observer.SystemUUID(), log: a.Log}
	if a.api, err = newKubernetes(id.KubernetesURL, id.CA, id.Hostname, a.credentials.certificate, c.Now); err != nil {
		return nil, err
	}
	return a, a.newApplier()
}

// Run joins if need be and then reports until the context ends.
func (a *Agent) Run(ctx context.Context) error {
	joined, err := a.credentials.load()
	if err != nil {
		return fmt.Errorf("agent: %w; install the server again (spec.reinstallAfter)", err)
	}
	a.Log.Info("agent starts", slog.String("version", a.Version), slog.Bool("joined", joined), slog.String("image", a.id.Image))
	a.state = State{Joined: joined}
	// A host starts what it is to run when its control plane is away, and before it has joined again.
	wanted, stop := a.configure(ctx)
	defer stop()
	for retry := (backoff.Backoff{First: firstRetry, Most: mostRetry}); !joined; {
		err := a.credentials.join(ctx)
		if joined = a.credentials.certificate() != nil; joined && err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		wait := retryAfter(err, &retry)
		a.note(err)
		a.Log.Warn("not joined yet", slog.Any("error", err), slog.Duration("retry", wait))
		if !backoff.Sleep(ctx, backoff.Jitter(wait)) {
			return nil
		}
	}
	var following sync.WaitGroup
	if a.applier != nil {
		following.Go(func() {
			a.api.follow(ctx, func(content string) { offer(wanted, content) }, func(err error) { a.watched.Store(&err) })
		})
	}
	a.loop(ctx)
	following.Wait()
	return nil
}

// loop reports and keeps the heartbeat until ctx ends: one thing after the other, each bounded by its
// time-out.
func (a *Agent) loop(ctx context.Context) {
	var observe, compare time.Time
	look := a.Now().Add(backoff.Jitter(a.TunnelsEvery / 10)) // Neutron's agent makes the tunnels first
	certificate := certification{agent: a, backoff: backoff.Backoff{First: firstRetry, Most: mostRetry}}
	for {
		now := a.Now()
		if !now.Before(compare) {
			a.known = false
			compare = now.Add(backoff.Jitter(a.CompareEvery))
		}
		if !a.known || !now.Before(observe) {
			a.report(ctx)
			observe = now.Add(a.ObserveEvery)
		}
		if a.Tunnels != nil && a.known && !now.Before(look) {
			a.tryTunnels(ctx)
			look = now.Add(backoff.Jitter(a.TunnelsEvery))
		}
		err := a.api.heartbeat(ctx, leaseDuration)
		if ctx.Err() != nil {
			return
		}
		a.note(err)
		a.quiet.log(a.Log, "heartbeat", err, now)
		if err := a.watched.Load(); err != nil {
			a.quiet.log(a.Log, "watch of the configuration", *err, now)
		}
		certificate.keep(ctx, err, now)
		if !a.wait(ctx, backoff.Jitter(a.HeartbeatEvery)) {
			return
		}
	}
}

// report writes the status if it differs from what the API server holds.
func (a *Agent) report(ctx context.Context) {
	if !a.known {
		h, err := a.api.host(ctx)
		if err != nil {
			a.quiet.log(a.Log, "read host", err, a.Now())
			return
		}
		a.reported, a.known = h.Status, true
	}
	now, inv := a.Observer.Observe(ctx), a.inventory(ctx)
	observed := steady(now, a.observed)
	a.observed = now
	build := func() region.HostStatus {
		s := buildStatus(observed, a.api.clockOffset(), a.Version, a.id.Image, inv, a.refused, a.said, a.reported, a.Now())
		a.tunnels.report(&s, a.reported, a.Now())
		return s
	}
	next := build()
	if sameStatus(next, a.reported) {
		return
	}
	err := a.api.patchStatus(ctx, next)
	if invalid := (*statusError)(nil); next.Inventory != nil && errors.As(err, &invalid) && invalid.code == http.StatusUnprocessableEntity {
		// Hardware that the schema has no word for, or more of it than a status may have, must not keep the host from reporting.
		before := a.refused
		a.refused = refusedInventory{inv, invalid.message}
		next = build()
		if err = a.api.patchStatus(ctx, next); err != nil {
			a.refused = before
		}
	}
	if err != nil {
		a.known = false
		a.quiet.log(a.Log, "write status", err, a.Now())
		return
	}
	a.reported = next
	for _, c := range next.Conditions {
		a.Log.Info("status written", slog.String("condition", c.Type), slog.String("status", string(c.Status)),
			slog.String("reason", c.Reason), slog.String("message", c.Message))
	}
}

// inventory of the machine, read once, with the neighbours heard since. What can't be read is left
// out: a partial inventory is reported all the same.
func (a *Agent) inventory(ctx context.Context) *inventory.Inventory {
	if a.id.ServerUID == "" {
		return nil // what a machine is that regiond did not install is nobody's business, nor what a namespace shows of another's
	}
	if a.machine == nil {
		read := a.Observer.Inventory
		if read == nil {
			read = readInventory
		}
		inv, err := read()
		if err != nil {
			a.Log.Warn("inventory is not complete", slog.Any("error", err))
		}
		// In the form in which the API server gives it back, to be compared with that.
		a.machine = &inventory.Inventory{}
		b, err := json.Marshal(inv)
		if err == nil {
			err = json.Unmarshal(b, a.machine)
		}
		if err != nil {
			a.Log.Warn("inventory is not comparable", slog.Any("error", err))
		}
	}
	seen := a.machine.DeepCopy()
	for i := range seen.NICs {
		if nic := &seen.NICs[i]; nic.LinkUp && a.Observer.Neighbour != nil {
			nic.LLDP = a.Observer.Neighbour(ctx, nic.Name)
		}
	}
	return seen
}

// note leaves what came of the last exchange for `healthy`.
func (a *Agent) note(err error) {
	a.state.Joined = a.credentials.certificate() != nil
	a.state.Time = a.Now()
	a.state.Error, a.state.Unreachable = "", false
	if err == nil {
		a.state.LastSuccess = a.state.Time
	} else {
		a.state.Error = err.Error()
		a.state.Unreachable = unreachable(err)
	}
	if err := writeState(a.StateFile, a.state); err != nil {
		a.Log.Warn("state not kept", slog.Any("error", err))
	}
}

// unreachable says whether nobody sensible answered, in contrast to a refusal of this host.
func unreachable(err error) bool {
	if status := (*statusError)(nil); errors.As(err, &status) {
		return status.code >= http.StatusInternalServerError || status.code == http.StatusTooManyRequests
	}
	return !enroll.Refused(err)
}

// quiet logs a lasting failure once in a while, and its end.
type quiet struct {
	failing map[string]time.Time // what: last logged
}

func (q *quiet) log(log *slog.Logger, what string, err error, now time.Time) {
	if q.failing == nil {
		q.failing = map[string]time.Time{}
	}
	last, failing := q.failing[what]
	switch {
	case err == nil && failing:
		delete(q.failing, what)
		log.Info(what + " works again")
	case err != nil && (!failing || now.Sub(last) >= logEvery):
		q.failing[what] = now
		log.Warn(what+" failed", slog.Any("error", err))
	}
}
