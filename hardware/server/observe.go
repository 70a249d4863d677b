package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event"
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/span"
)

// Timeouts of one exchange with a BMC. Powering off and on is waited for until it is observed.
const (
	probeTimeout = 45 * time.Second
	orderTimeout = 3 * time.Minute
	// surveyTimeout of a question to the cloud about a host.
	surveyTimeout = time.Minute
)

// observations caches what BMCs said, by Server UID. Losing it costs another question, nothing else.
type observations struct {
	mu sync.Mutex
	of map[types.UID]observed
}

type observed struct {
	Observation
	// identified: the BMC said who it is, with these credentials.
	identified bool
	// silences and failures in a row: of questions, and of orders. A BMC that answers questions but
	// does not obey must be given commands at a limited rate.
	silences, failures int
	// beat is the heartbeat that was read last; beating: it was renewed since this process first read it.
	beat          time.Time
	read, beating bool
	survey        GuestSurvey
}

// heartbeat says whether a host's heartbeat was renewed since this process first read it.
func (o *observations) heartbeat(uid types.UID, beat time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.of[uid]
	v.beating = !beat.IsZero() && (v.beating || v.read && !beat.Equal(v.beat))
	v.read, v.beat = true, beat
	if o.of == nil {
		o.of = map[types.UID]observed{}
	}
	o.of[uid] = v
	return v.beating
}

func (o *observations) get(uid types.UID) observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[uid]
}

func (o *observations) put(uid types.UID, v observed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[types.UID]observed{}
	}
	o.of[uid] = v
}

func (o *observations) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, uid)
}

// backoff grows from 5 s to 5 min with each failure in a row, and is spread over half of itself, so that
// a rack whose switch comes back is not asked all at once.
func backoff(failures int) time.Duration {
	d := 5 * time.Minute
	if failures < 7 {
		d = min(d, 5*time.Second<<max(failures-1, 0))
	}
	return d/2 + rand.N(d/2)
}

// ask makes a new observation. It returns what the BMC said of itself, when it was asked for that.
func (c *Controller) ask(ctx context.Context, s *region.Server, access bmc.Target, version string) *region.BMCStatus {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	old := c.observations.get(s.UID)
	same := old.CredentialsVersion == version && old.Generation == s.Generation
	if old.Outcome == OutcomeRefused {
		// A new try is due, by a change or by time: the account on the BMC may have been corrected.
		if err := c.BMCs.Forget(ctx, access.Address); err != nil {
			c.Log.Debug("BMC session not ended", slog.String("server", s.Name), slog.Any("error", err))
		}
	}
	var info *region.BMCStatus
	var power region.PowerState
	var err error
	next := observed{}
	next.beat, next.read, next.beating, next.survey = old.beat, old.read, old.beating, old.survey
	if same {
		next.failures, next.silences, next.identified = old.failures, old.silences, old.identified
	}
	if !next.identified || !identified(s.Status.BMC) {
		var said region.BMCStatus
		if said, power, err = c.BMCs.Probe(ctx, access); err == nil {
			info = &said
		}
		next.identified = err == nil
	} else {
		power, err = c.BMCs.Power(ctx, access)
	}
	next.Observation = Observation{Outcome: OutcomeAnswered, Time: c.Now(), Power: power, CredentialsVersion: version, Generation: s.Generation}
	next.note(err, OutcomeUnreachable, &next.silences)
	c.observations.put(s.UID, next)
	if err != nil && ctx.Err() != context.Canceled {
		c.Log.Warn("BMC did not answer", slog.String("server", s.Name), slog.String("bmc", access.Address.String()), slog.String("user", access.Username),
			slog.String("outcome", string(next.Outcome)), slog.Any("error", err), slog.Time("nextTry", next.NextTry))
	}
	c.metrics.asked.WithLabelValues(string(next.Outcome)).Inc()
	return info
}

// identified says whether the status holds what the BMC said of itself.
func identified(b *region.BMCStatus) bool {
	return b != nil && *b != (region.BMCStatus{CredentialsVersion: b.CredentialsVersion, CredentialsRefused: b.CredentialsRefused})
}

// note enters an error, or success, into the observation.
func (o *observed) note(err error, outcome Outcome, count *int) {
	switch {
	case err == nil:
		*count = 0
	case bmc.Refused(err):
		o.Outcome, o.Reason, o.Error, o.Power = OutcomeRefused, reasonOf(err), err.Error(), region.PowerUnknown
		o.NextTry = o.Time.Add(refusedRetry)
	default:
		*count++
		o.Outcome, o.Reason, o.Error, o.Power = outcome, reasonOf(err), err.Error(), region.PowerUnknown
		o.NextTry = o.Time.Add(backoff(*count))
	}
}

// reasonOf is the condition reason that a BMC's error carries, empty for other errors.
func reasonOf(err error) string {
	if e := (*bmc.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// survey asks the cloud about the server's host: whether guests are on it, or to forget its old system.
func (c *Controller) survey(ctx context.Context, s *region.Server, ask func(ctx context.Context, host string) error) GuestSurvey {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	v := GuestSurvey{Time: c.Now()}
	if err := ask(ctx, s.Name); err != nil {
		v.Refusal = err.Error()
		c.Log.Info("host can't be installed again now", slog.String("server", s.Name), slog.Any("error", err))
	}
	o := c.observations.get(s.UID)
	o.survey = v
	c.observations.put(s.UID, o)
	return v
}

// order carries out an action on the machine and enters what came of it into the observation.
func (c *Controller) order(ctx context.Context, s *region.Server, access bmc.Target, version string, action Action) {
	if leadership.Check(ctx) != nil {
		return // another host may decide by now; if this one leads again, it decides again
	}
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	ctx, done := span.Start(ctx, "order "+actionName(action), s.Name)
	var err error
	power := region.PowerOn
	consent := region.Consent("")
	switch a := action.(type) {
	case ShutDown:
		consent = a.Consent
		err = c.BMCs.ShutDown(ctx, access)
	case PowerOff:
		consent, power = a.Consent, region.PowerOff
		err = c.BMCs.SetPower(ctx, access, region.PowerOff)
	case PowerOn:
		err = c.BMCs.SetPower(ctx, access, region.PowerOn)
	case Netboot:
		if err = c.BMCs.SetNetworkBoot(ctx, access, a.Firmware); err == nil {
			err = c.BMCs.SetPower(ctx, access, region.PowerOn)
		}
	}
	done(err)
	log := c.Log.With(slog.String("server", s.Name), slog.String("action", actionName(action)), slog.String("consent", string(consent)))
	o := c.observations.get(s.UID)
	o.Observation = Observation{Outcome: OutcomeAnswered, Time: c.Now(), Power: power, CredentialsVersion: version, Generation: s.Generation}
	if _, soft := action.(ShutDown); soft && err != nil && !bmc.Refused(err) {
		// Many BMCs don't do it. The system gets its time all the same.
		log.Info("BMC did not pass on the request to shut down", slog.Any("error", err))
		err = nil
	}
	o.note(err, OutcomeContradictory, &o.failures)
	c.observations.put(s.UID, o)
	result := "done"
	if err != nil {
		result = "failed"
	}
	c.metrics.orders.WithLabelValues(actionName(action), result).Inc()
	event.Act(c.Events, s, actionName(action), orderNote(access, consent), err)
	if err != nil {
		log.Warn("BMC did not carry out an order", slog.Any("error", err), slog.Time("nextTry", o.NextTry))
		return
	}
	log.Info("power action done", slog.String("power", string(power)))
}

func actionName(a Action) string {
	switch a.(type) {
	case Survey:
		return "Survey"
	case ShutDown:
		return "ShutDown"
	case PowerOff:
		return "PowerOff"
	case PowerOn:
		return "PowerOn"
	case Netboot:
		return "Netboot"
	case Probe:
		return "Probe"
	}
	return "None"
}
