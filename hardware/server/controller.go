package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/sightings"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
	"regiond.dev/regiond/region/host"
)

// Finalizer on a Server: nothing is made for it before this was written.
const Finalizer = "regiond.dev/server"

// Namespace of regiond's own Secrets.
const Namespace = region.NamespaceSystem

// SourceLabel tells where a Server comes from.
const (
	SourceLabel     = "regiond.dev/source"
	SourceRegion    = "region"
	SourceDiscovery = "discovery"
)

// Controller brings servers to what the operator wants of them.
type Controller struct {
	// Client may read from a cache that lags.
	Client client.Client
	// Live reads from the API server itself: a decision on a stale status might power a machine on twice.
	Live client.Reader
	BMCs BMCs
	// Guests on the hosts.
	Guests Guests
	// Sightings of machines on the provisioning network.
	Sightings *sightings.Sightings
	// RegionName of the Region object.
	RegionName string
	// Cleanup removes what others keep for a server that is deleted, retired or installed again: its tokens.
	Cleanup func(ctx context.Context, s *region.Server) error
	// Events are the history of servers and their hosts.
	Events event.Recorder
	Now    func() time.Time
	Log    *slog.Logger

	metrics      metrics
	observations observations
	starts       *rate.Limiter
	listening    time.Time
}

// Reconcile observes, decides, writes the status and acts.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &region.Server{}
	if err := c.Live.Get(ctx, req.NamespacedName, s); err != nil {
		if apierrors.IsNotFound(err) {
			c.metrics.gone(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !s.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.remove(ctx, s)
	}
	if before := s.DeepCopy(); controllerutil.AddFinalizer(s, Finalizer) {
		// The update's event continues.
		return ctrl.Result{}, client.IgnoreNotFound(c.Client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	}
	access, version, err := c.credentials(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := s.DeepCopy()
	desired, facts, err := c.observe(ctx, s, version)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := c.decide(ctx, s, desired, facts, access, version)
	journal(&s.Status, desired, d, c.Now())
	if !equality.Semantic.DeepEqual(before.Status, s.Status) {
		// The lock: an answer to the machine that was given since, a ticket say, would make this decision another one.
		if err := c.Client.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: conflictRetry}, nil
			}
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	c.report(before, s)
	if d.Accepted {
		event.Act(c.Events, s, "ReinstallationAccepted", fmt.Sprintf("the system that is installed is given up for a new one, as spec.reinstallAfter %s asks for",
			stamp(desired.Spec.ReinstallAfter.Time)), nil)
	}
	if err := c.host(ctx, s, desired, facts.Key, d); err != nil {
		return ctrl.Result{}, err
	}
	switch d.Action.(type) {
	case None, Probe, Survey:
		return ctrl.Result{RequeueAfter: d.After}, nil
	}
	c.order(ctx, s, access, version, d.Action)
	return ctrl.Result{RequeueAfter: time.Second}, c.recordPower(ctx, s)
}

// recordPower writes down at once what came of an order: tickets are given only while the machine
// is on, and before the next reconciliation somebody may switch on what was switched off.
func (c *Controller) recordPower(ctx context.Context, s *region.Server) error {
	o := c.observations.get(s.UID)
	if o.Outcome != OutcomeAnswered || o.Power == s.Status.Power {
		return nil
	}
	before := s.DeepCopy()
	s.Status.Power = o.Power
	if o.Power == region.PowerOff {
		s.Status.Shutdown = nil
		if n := s.Status.Netboot; n != nil && n.Requested != nil && n.Ended == nil {
			n.Ended = &metav1.Time{Time: c.Now()}
		}
	}
	return client.IgnoreNotFound(c.Client.Status().Patch(ctx, s, client.MergeFrom(before)))
}

// starts says whether an action powers a machine on.
func starts(a Action) bool {
	switch a.(type) {
	case PowerOn, Netboot:
		return true
	}
	return false
}

// observe collects the desire and the facts, but for what has to be asked.
func (c *Controller) observe(ctx context.Context, s *region.Server, version string) (Desired, Facts, error) {
	desired, err := ReadDesired(ctx, c.Client, c.RegionName, s)
	if err != nil {
		return Desired{}, Facts{}, err
	}
	facts, err := ReadFacts(ctx, c.Client, s)
	if err != nil {
		return Desired{}, Facts{}, err
	}
	if facts.Duplicates, err = duplicates(ctx, c.Client, s); err != nil {
		return Desired{}, Facts{}, err
	}
	if s.Status.Inventory == nil && joined(desired, facts) {
		s.Status.Inventory = facts.Host.Status.Inventory.DeepCopy()
		facts.Status = s.Status
	}
	facts.CredentialsVersion = version
	facts.Listening = c.listening
	facts.HeartbeatSeen = c.observations.heartbeat(s.UID, facts.Heartbeat)
	facts.Sighted = c.Sightings.Of(knownMACs(desired, facts), systemUUID(facts))
	seen := c.observations.get(s.UID)
	facts.BMC, facts.Survey = seen.Observation, seen.survey
	return desired, facts, nil
}

// decide asks what the decision needs to know, and decides again. What acts on the machine's power
// is decided by a state that was read in this very reconciliation: in the seconds since an older
// one somebody may have switched the machine on.
func (c *Controller) decide(ctx context.Context, s *region.Server, desired Desired, facts Facts, access bmc.Target, version string) Decision {
	d := Decide(desired, facts, c.Now())
	if _, survey := d.Action.(Survey); survey {
		facts.Survey = c.survey(ctx, s, c.Guests.Vacate)
		d = Decide(desired, facts, c.Now())
	}
	switch d.Action.(type) {
	case None, Survey:
	default:
		info := c.ask(ctx, s, access, version)
		facts.BMC = c.observations.get(s.UID).Observation
		recordBMC(&s.Status, info, facts.BMC)
		facts.Status = s.Status
		d = Decide(desired, facts, c.Now())
	}
	if starts(d.Action) && !c.starts.AllowN(c.Now(), 1) {
		d.Action, d.After = None{}, startEvery/2+rand.N(startEvery)
	}
	if _, netboots := d.Action.(Netboot); netboots && desired.Reinstallation != nil {
		// Before the journal: a boot that the cloud holds up is not an attempt.
		facts.Survey = c.survey(ctx, s, c.Guests.Forget)
		d = Decide(desired, facts, c.Now())
	}
	switch d.Action.(type) {
	case Probe, Survey: // once in a reconciliation
		d.Action, d.After = None{}, activePoll
	}
	switch {
	case facts.BMC.Outcome == OutcomeAnswered:
		s.Status.Power = facts.BMC.Power
	case s.Status.Power != "":
		s.Status.Power = region.PowerUnknown // what an earlier process read
	}
	return d
}

// journal enters the decision, and what is about to be done, into the status. It is written before
// it is done: a process that is killed in between finds an attempt without effect, not a machine
// that it knows nothing of.
func journal(s *region.ServerStatus, want Desired, d Decision, now time.Time) {
	d.Apply(s, now)
	if d.Installed && s.Netboot != nil {
		s.Netboot.Attempts = 0
	}
	if d.Accepted {
		if s.Netboot != nil && s.Netboot.Requested != nil {
			s.Netboot.Ended = &metav1.Time{Time: now} // whatever comes is another boot
		}
		s.Reinstallation = &region.ReinstallationStatus{After: *want.Spec.ReinstallAfter, Accepted: metav1.NewTime(now)}
	}
	switch a := d.Action.(type) {
	case ShutDown:
		s.Shutdown = &region.ShutdownStatus{Requested: metav1.NewTime(now), Consent: a.Consent, BMCAddress: BMCAddress(want.Spec.BMC)}
	case Netboot:
		old := s.Netboot
		s.Netboot = &region.NetbootStatus{Requested: &metav1.Time{Time: now}, ObservedOff: &metav1.Time{Time: a.ObservedOff},
			BMCAddress: BMCAddress(want.Spec.BMC), Attempts: a.Attempt}
		if old != nil {
			s.Netboot.LastSeen, s.Netboot.MACAddress, s.Netboot.Address = old.LastSeen, old.MACAddress, old.Address
		}
	}
}

// host gives the installed system its rights, or ends them.
func (c *Controller) host(ctx context.Context, s *region.Server, want Desired, key *hostkey.Record, d Decision) error {
	if d.Retired || d.Accepted {
		if c.Cleanup != nil {
			if err := c.Cleanup(ctx, s); err != nil {
				return fmt.Errorf("server %s: revoke its tokens: %w", s.Name, err)
			}
		}
	}
	if d.Retired || d.Accepted || d.Reinstalling {
		return host.Remove(ctx, c.Client, s.Name)
	}
	if d.Installed {
		if err := host.Ensure(ctx, c.Client, s, ProfileOf(want, s), key.Holders()); err != nil && !apierrors.IsAlreadyExists(err) { // the cache lags
			return err
		}
	}
	return nil
}

// recordBMC enters an observation into the status.
func recordBMC(s *region.ServerStatus, info *region.BMCStatus, o Observation) {
	s.Power = o.Power
	switch {
	case info != nil:
		s.BMC = info
	case s.BMC == nil:
		s.BMC = &region.BMCStatus{}
	}
	s.BMC.CredentialsVersion, s.BMC.CredentialsRefused = o.CredentialsVersion, nil
	if o.Outcome == OutcomeRefused {
		s.BMC.CredentialsRefused = &metav1.Time{Time: o.Time}
	}
}

// ProfileOf the installed server; nil when that can't be told any more.
func ProfileOf(want Desired, s *region.Server) *region.Profile {
	if s.Status.Inventory == nil {
		return nil
	}
	p, refused := MatchProfile(want, s.Status.Inventory)
	if refused != nil {
		return nil
	}
	return p
}

// remove takes away all that was made for a server, and then lets it go.
func (c *Controller) remove(ctx context.Context, s *region.Server) error {
	if !controllerutil.ContainsFinalizer(s, Finalizer) {
		return nil
	}
	if err := host.Remove(ctx, c.Client, s.Name); err != nil {
		return err
	}
	if c.Cleanup != nil {
		if err := c.Cleanup(ctx, s); err != nil {
			return fmt.Errorf("server %s: clean up: %w", s.Name, err)
		}
	}
	c.observations.forget(s.UID)
	if ap, ok := Endpoint(s.Spec.BMC); ok {
		if err := c.BMCs.Forget(ctx, ap); err != nil { // a BMC that is gone can't end a session
			c.Log.Debug("BMC session not ended", slog.String("server", s.Name), slog.Any("error", err))
		}
	}
	before := s.DeepCopy()
	controllerutil.RemoveFinalizer(s, Finalizer)
	if err := c.Client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return err
	}
	event.Act(c.Events, s, "Removed", "the server is forgotten; its host's rights are revoked", nil)
	c.Log.Info("server removed", slog.String("server", s.Name), slog.String("uid", string(s.UID)))
	return nil
}

// credentials of the server's BMC and their version, which is empty when there are none.
func (c *Controller) credentials(ctx context.Context, s *region.Server) (bmc.Target, string, error) {
	ap, ok := Endpoint(s.Spec.BMC)
	if !ok {
		return bmc.Target{}, "", nil
	}
	secret := &corev1.Secret{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: CredentialsSecret(s.Spec.BMC.Credentials)}, secret)
	if apierrors.IsNotFound(err) {
		return bmc.Target{}, "", nil
	}
	if err != nil {
		return bmc.Target{}, "", err
	}
	return Target(ap, s.Spec.BMC.Protocol, secret), secret.ResourceVersion, nil
}

// ReadDesired collects what is desired of a server.
func ReadDesired(ctx context.Context, r client.Reader, regionName string, s *region.Server) (Desired, error) {
	reg := &region.Region{}
	if err := r.Get(ctx, client.ObjectKey{Name: regionName}, reg); err != nil {
		return Desired{}, fmt.Errorf("server %s: read region %s: %w", s.Name, regionName, err)
	}
	listed := slices.ContainsFunc(reg.Spec.Hardware.Servers, func(st region.StaticServer) bool { return st.Name == s.Name })
	return Desired{Name: s.Name, UID: s.UID, Generation: s.Generation, Spec: s.Spec, RegionUID: reg.UID,
		Reinstallation: Reinstallation(s), Profiles: reg.Spec.Hardware.Profiles, Undeclared: s.Labels[SourceLabel] == SourceRegion && !listed}, nil
}

// ReadFacts collects what the API server knows of a server, but for its duplicates.
func ReadFacts(ctx context.Context, r client.Reader, s *region.Server) (Facts, error) {
	f := Facts{Status: s.Status}
	h := &region.Host{}
	switch err := r.Get(ctx, client.ObjectKey{Name: s.Name}, h); {
	case err == nil:
		f.Host = h
	case !apierrors.IsNotFound(err):
		return f, err
	}
	var err error
	if f.Key, err = hostkey.Read(ctx, r, s); err != nil {
		return f, err
	}
	f.HeartbeatTimeout = host.LeaseDuration
	lease := &coordinationv1.Lease{}
	switch err := r.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: s.Name}, lease); {
	case err == nil && lease.Spec.RenewTime != nil && metav1.IsControlledBy(lease, s):
		f.Heartbeat = lease.Spec.RenewTime.Time
		if n := lease.Spec.LeaseDurationSeconds; n != nil && *n > 0 {
			f.HeartbeatTimeout = time.Duration(*n) * time.Second
		}
	case err != nil && !apierrors.IsNotFound(err):
		return f, err
	}
	return f, nil
}

// duplicates are the names of other servers that are the same machine. The reader must have the
// IdentityIndex.
func duplicates(ctx context.Context, r client.Reader, s *region.Server) ([]string, error) {
	var candidates []region.Server
	for _, key := range IdentityKeys(s) {
		var list region.ServerList
		if err := r.List(ctx, &list, client.MatchingFields{IdentityIndex: key}); err != nil {
			return nil, fmt.Errorf("server %s: list servers by %s: %w", s.Name, key, err)
		}
		candidates = append(candidates, list.Items...)
	}
	return Duplicates(candidates, s), nil
}

// Init checks the configuration and fills in what was left out.
func (c *Controller) Init(registry registerer) error {
	if c.Client == nil || c.Live == nil || c.BMCs == nil || c.Guests == nil || c.RegionName == "" || c.Events == nil || c.Log == nil {
		return errors.New("server controller: Client, Live, BMCs, Guests, RegionName, Events and Log are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.listening = c.Now()
	c.starts = rate.NewLimiter(rate.Every(startEvery), startBurst)
	return c.metrics.register(registry)
}
