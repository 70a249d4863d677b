// Package schedule makes backups when they are due, by the stored Region, and says how that went: by
// a condition and Events of the Region, and metrics.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/condition"
	"regiond.dev/regiond/region/event"
)

const (
	// tick is how often the Region is looked at.
	tick = 30 * time.Second
	// retryAfter a failure.
	retryAfter = 10 * time.Minute
	// listLimit and makeLimit bound looking into the destination and making a backup: a destination
	// that hangs, as NFS does, is a failure that somebody is told of.
	listLimit = time.Minute
	makeLimit = 4 * time.Hour
)

// Config of a Scheduler.
type Config struct {
	Client client.Client
	Events event.Recorder
	// Region by its name.
	Region string
	// Last backup of this region in the declared destination, zero if there is none.
	Last func(ctx context.Context, r *region.Region) (time.Time, error)
	// Make a backup.
	Make func(ctx context.Context, r *region.Region) (backup.Stored, error)
	// BesideData tells whether the declared destination is on the disk of what is backed up.
	BesideData func(r *region.Region) (bool, error)
	// Prune removes the backups that are not kept any more. It is called when another one was made, and
	// again after a failure, which is not one of the backup.
	Prune   func(ctx context.Context, r *region.Region) error
	Clock   clock.WithTickerAndDelayedExecution
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Scheduler is a Runnable of a controller manager. It keeps nothing: when it starts it looks into
// the destination for the last backup.
type Scheduler struct {
	Config
	last   prometheus.Gauge
	next   prometheus.Gauge
	errors prometheus.Counter

	failed time.Time // when the last attempt of this process failed; zero after a good one
	asked  *region.Backup
	seen   time.Time // the last backup in the destination of asked
	since  time.Time // when asked was read: without a backup, one is due since
	away   bool      // the destination could not be read when it was looked at last
	// unpruned: another backup was made since backups were pruned last, which is tried again from
	// pruneAt on if it failed by pruneError.
	unpruned   bool
	pruneAt    time.Time
	pruneError error
}

// New returns a scheduler whose metrics are registered.
func New(c Config) (*Scheduler, error) {
	s := &Scheduler{Config: c}
	s.last = prometheus.NewGauge(prometheus.GaugeOpts{Name: "regiond_backup_last_success_timestamp_seconds",
		Help: "When the last good backup was begun, in seconds since 1970. 0: there is none, or none is declared."})
	s.next = prometheus.NewGauge(prometheus.GaugeOpts{Name: "regiond_backup_next_timestamp_seconds",
		Help: "When the next backup is due by its schedule, in seconds since 1970. 0: none is declared."})
	s.errors = prometheus.NewCounter(prometheus.CounterOpts{Name: "regiond_backup_errors_total", Help: "Backups that could not be made."})
	for _, m := range []prometheus.Collector{s.last, s.next, s.errors} {
		c.Metrics.Unregister(m) // that of an earlier attempt
		if err := c.Metrics.Register(m); err != nil {
			return nil, fmt.Errorf("metrics of backups: %w", err)
		}
	}
	return s, nil
}

// Start makes backups until the context ends.
func (s *Scheduler) Start(ctx context.Context) error {
	t := s.Clock.NewTicker(tick)
	defer t.Stop()
	for {
		if err := s.Turn(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("backups", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C():
		}
	}
}

// Turn looks once, and makes a backup if one is due.
func (s *Scheduler) Turn(ctx context.Context) error {
	r := &region.Region{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: s.Region}, r); err != nil {
		return err
	}
	if r.Spec.Backup == nil {
		s.asked, s.failed, s.unpruned, s.pruneError = nil, time.Time{}, false, nil
		s.last.Set(0)
		s.next.Set(0)
		return s.remove(ctx, r)
	}
	region.Default(r)
	if !equality.Semantic.DeepEqual(s.asked, r.Spec.Backup) {
		s.asked, s.failed = nil, time.Time{} // looked for again, in another destination perhaps
		var last time.Time
		err := s.within(ctx, r, listLimit, "the destination of backups has not answered", func(ctx context.Context) (err error) {
			last, err = s.Last(ctx, r)
			return err
		})
		if ctx.Err() != nil {
			return nil // regiond stops
		}
		if err != nil {
			s.errors.Inc()
			if !s.away {
				event.Act(s.Events, r, "BackupFailed", "the destination of backups can't be read", err)
			}
			s.away = true
			return errors.Join(err, s.tell(ctx, r, err))
		}
		s.away = false
		s.asked, s.seen, s.since = r.Spec.Backup.DeepCopy(), last, s.Clock.Now()
		s.shown()
	}
	next, err := region.ParseBackupSchedule(r.Spec.Backup.Schedule)
	if err != nil {
		return s.tell(ctx, r, fmt.Errorf("spec.backup.schedule %q: %w", r.Spec.Backup.Schedule, err))
	}
	due := s.since
	if !s.seen.IsZero() {
		due = next(s.seen)
	}
	s.next.Set(float64(due.Unix()))
	if Due(next, s.seen, s.failed, s.Clock.Now()) {
		if err := s.make(ctx, r); err != nil {
			return err
		}
	}
	if !s.failed.IsZero() || ctx.Err() != nil {
		return nil
	}
	err = s.prune(ctx, r)
	return errors.Join(err, s.tell(ctx, r, nil))
}

// Due decides whether a backup is to be made: at once if there was none, or one was missed, and ten
// minutes after a failure.
func Due(next func(time.Time) time.Time, last, failed, now time.Time) bool {
	if !failed.IsZero() {
		return !now.Before(failed.Add(retryAfter))
	}
	return last.IsZero() || !now.Before(next(last)) || last.After(now) // a clock that was ahead
}

func (s *Scheduler) make(ctx context.Context, r *region.Region) error {
	var made backup.Stored
	err := s.within(ctx, r, makeLimit, "the backup has not ended", func(ctx context.Context) (err error) {
		made, err = s.Make(ctx, r)
		return err
	})
	if ctx.Err() != nil {
		return nil // regiond stops
	}
	if err != nil {
		s.failed = s.Clock.Now()
		s.errors.Inc()
		event.Act(s.Events, r, "BackupFailed", "the control host was not backed up", err)
		return errors.Join(err, s.tell(ctx, r, err))
	}
	s.failed, s.seen, s.unpruned, s.pruneAt = time.Time{}, made.Time, true, time.Time{}
	s.shown()
	s.Log.Info("backed up", slog.String("backup", made.Name), slog.Int64("bytes", made.Size))
	event.Act(s.Events, r, "BackedUp", fmt.Sprintf("%s, %d bytes", made.Name, made.Size), nil)
	return nil
}

// prune removes what is not kept any more. If that fails it is tried again, and nothing is backed up
// again for it: a destination that lets nobody remove anything would be filled.
func (s *Scheduler) prune(ctx context.Context, r *region.Region) error {
	if !s.unpruned || s.Clock.Now().Before(s.pruneAt) {
		return nil
	}
	err := s.Prune(ctx, r)
	if ctx.Err() != nil {
		return nil // regiond stops
	}
	s.unpruned, s.pruneAt, s.pruneError = err != nil, s.Clock.Now().Add(retryAfter), err
	return err
}

func (s *Scheduler) shown() {
	if s.seen.IsZero() {
		s.last.Set(0)
		return
	}
	s.last.Set(float64(s.seen.Unix()))
}

// tell the Region how backups are.
func (s *Scheduler) tell(ctx context.Context, r *region.Region, failure error) error {
	c := metav1.Condition{Type: region.ConditionBackedUp, Status: metav1.ConditionTrue, Reason: region.ReasonBackedUp, ObservedGeneration: r.Generation}
	switch {
	case failure != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, region.ReasonBackupFailed, condition.Message(failure.Error())
		if !s.seen.IsZero() {
			c.Message = condition.Message(fmt.Sprintf("the last good one is of %s: %v", s.seen.UTC().Format(time.RFC3339), failure))
		}
	case s.seen.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, region.ReasonNoBackup, "none was made yet"
	case s.pruneError != nil:
		c.Status, c.Reason = metav1.ConditionFalse, region.ReasonBackupsNotPruned
		c.Message = condition.Message(fmt.Sprintf("the last one is of %s; backups that are not kept any more can't be removed: %v",
			s.seen.UTC().Format(time.RFC3339), s.pruneError))
	case s.besideData(r):
		c.Status, c.Reason = metav1.ConditionFalse, region.ReasonBackupsBesideData
		c.Message = fmt.Sprintf("the last one is of %s; %s is on the disk of what is backed up, and lost with it: mount another machine's disk there, or name another destination",
			s.seen.UTC().Format(time.RFC3339), r.Spec.Backup.Destination.Directory)
	default:
		c.Message = "the last one is of " + s.seen.UTC().Format(time.RFC3339)
	}
	before := r.DeepCopy()
	if !meta.SetStatusCondition(&r.Status.Conditions, c) {
		return nil
	}
	return s.Client.Status().Patch(ctx, r, client.MergeFrom(before))
}

// besideData is false as well if it can't be told: the next backup then fails by the same cause.
func (s *Scheduler) besideData(r *region.Region) bool {
	beside, err := s.BesideData(r)
	return err == nil && beside
}

// remove what was told of backups that are not declared any more.
func (s *Scheduler) remove(ctx context.Context, r *region.Region) error {
	before := r.DeepCopy()
	if !meta.RemoveStatusCondition(&r.Status.Conditions, region.ConditionBackedUp) {
		return nil
	}
	return s.Client.Status().Patch(ctx, r, client.MergeFrom(before))
}

// within bounds an operation, and says so if it goes on all the same: what hangs in the kernel, as a
// dead NFS server's client does, can't be cancelled.
func (s *Scheduler) within(ctx context.Context, r *region.Region, limit time.Duration, what string, operation func(context.Context) error) error {
	late := fmt.Errorf("%s within %s", what, limit)
	bounded, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	told, of := make(chan struct{}), r.DeepCopy() // the operation reads r meanwhile
	alarm := s.Clock.AfterFunc(limit+tick, func() {
		defer close(told)
		s.errors.Inc()
		event.Act(s.Events, of, "BackupFailed", "the control host is not backed up", late)
		if err := s.tell(ctx, of, late); err != nil {
			s.Log.Error("backups", slog.Any("error", err))
		}
	})
	err := operation(bounded)
	if !alarm.Stop() {
		<-told
	}
	if err != nil && errors.Is(context.Cause(bounded), late) {
		return late
	}
	return err
}
