package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/bootstrap/backup/schedule"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
	"regiond.dev/regiond/region/scheme"
)

var start = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

func TestDue(t *testing.T) {
	every6h := func(last time.Time) time.Time { return last.Add(6 * time.Hour) }
	ago := func(d time.Duration) time.Time { return start.Add(-d) }
	for name, c := range map[string]struct {
		last, failed time.Time
		want         bool
	}{
		"none yet":                      {want: true},
		"made just now":                 {last: start},
		"not due yet":                   {last: ago(6*time.Hour - time.Second)},
		"due":                           {last: ago(6 * time.Hour), want: true},
		"missed":                        {last: ago(60 * time.Hour), want: true},
		"failed just now":               {last: ago(60 * time.Hour), failed: start},
		"failed ten minutes ago":        {last: ago(60 * time.Hour), failed: ago(10 * time.Minute), want: true},
		"none yet, and failed just now": {failed: ago(time.Minute)},
		"of the future":                 {last: ago(-time.Hour), want: true},
	} {
		if got := schedule.Due(every6h, c.last, c.failed, start); got != c.want {
			t.Errorf("%s: got due %t, want %t", name, got, c.want)
		}
	}
}

// world is a region with backups, and a destination.
type world struct {
	t     *testing.T
	api   client.Client
	clock *clocktesting.FakeClock
	book  eventtest.Book
	last  time.Time // in the destination
	fail  error
	made  int
	// stuck is why backups can't be removed; pruned counts the attempts.
	stuck  error
	pruned int
	// away is why the destination can't be read. hang holds up backups until it is closed.
	away error
	hang chan struct{}
	// beside: the destination is on the disk of the data directory.
	beside bool
	*schedule.Scheduler
	registry *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "north-1"}, Spec: region.RegionSpec{Backup: &region.Backup{
		Destination: region.BackupDestination{Directory: "/mnt/b"}, Recipients: []string{"age1"}, Schedule: "6h"}}}
	w := &world{t: t, clock: clocktesting.NewFakeClock(start), registry: prometheus.NewRegistry(),
		api: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(r).WithStatusSubresource(r).Build()}
	w.restart()
	return w
}

// restart regiond.
func (w *world) restart() {
	w.t.Helper()
	var err error
	w.Scheduler, err = schedule.New(schedule.Config{Client: w.api, Events: &w.book, Region: "north-1", Clock: w.clock, Metrics: w.registry, Log: slog.New(slog.DiscardHandler),
		Last: func(context.Context, *region.Region) (time.Time, error) { return w.last, w.away },
		Make: func(context.Context, *region.Region) (backup.Stored, error) {
			if w.hang != nil {
				<-w.hang
			}
			if w.fail != nil {
				return backup.Stored{}, w.fail
			}
			w.made++
			w.last = w.clock.Now()
			return backup.Stored{Name: "b", Time: w.last}, nil
		},
		BesideData: func(*region.Region) (bool, error) { return w.beside, nil },
		Prune:      func(context.Context, *region.Region) error { w.pruned++; return w.stuck }})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) after(d time.Duration) {
	w.t.Helper()
	w.clock.Step(d)
	if err := w.Turn(w.t.Context()); err != nil && !errors.Is(err, w.fail) && !errors.Is(err, w.stuck) && !errors.Is(err, w.away) {
		w.t.Fatal(err)
	}
}

func (w *world) region() *region.Region {
	w.t.Helper()
	r := &region.Region{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "north-1"}, r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) want(made int, reason, message string) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.region().Status.Conditions, region.ConditionBackedUp)
	if w.made != made || c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
		w.t.Errorf("got %d backups and %+v, want %d, %s, %q", w.made, c, made, reason, message)
	}
}

func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		w.t.Fatalf("%s: not within a minute", what)
	}
}

func (w *world) metric(name string) float64 {
	w.t.Helper()
	all, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}

func TestBackupsAreMadeWhenDue(t *testing.T) {
	w := newWorld(t)
	w.after(0)
	w.want(1, region.ReasonBackedUp, "2026-12-01T03:00:00Z")
	w.after(5 * time.Hour)
	w.want(1, region.ReasonBackedUp, "03:00:00Z")
	w.after(time.Hour)
	w.want(2, region.ReasonBackedUp, "09:00:00Z")
	w.restart()
	w.after(time.Minute)
	w.want(2, region.ReasonBackedUp, "09:00:00Z")
	if got, want := w.metric("regiond_backup_last_success_timestamp_seconds"), float64(start.Add(6*time.Hour).Unix()); got != want {
		t.Errorf("got the last success at %f, want %f", got, want)
	}
	if got, want := w.metric("regiond_backup_next_timestamp_seconds"), float64(start.Add(12*time.Hour).Unix()); got != want {
		t.Errorf("got the next backup at %f, want %f", got, want)
	}
}

func TestFailuresAreToldAndRetried(t *testing.T) {
	w := newWorld(t)
	w.after(0)
	w.fail = errors.New("mariadb-0 is not running")
	w.after(6 * time.Hour)
	w.want(1, region.ReasonBackupFailed, "the last good one is of 2026-12-01T03:00:00Z: mariadb-0 is not running")
	w.after(time.Minute)
	if got := w.metric("regiond_backup_errors_total"); got != 1 {
		t.Errorf("got %f attempts that failed, want one", got)
	}
	w.fail = nil
	w.after(8 * time.Minute)
	w.want(1, region.ReasonBackupFailed, "")
	w.after(time.Minute)
	w.want(2, region.ReasonBackedUp, "09:10:00Z")
	said := strings.Join(w.book.Lines(""), "\n")
	for _, want := range []string{"Normal BackedUp", "Warning BackupFailed"} {
		if !strings.Contains(said, want) {
			t.Errorf("got Events\n%s\nwant %q among them", said, want)
		}
	}
}

// A store whose key may not remove anything must not be given one more backup every ten minutes.
func TestBackupsThatCannotBeRemoved(t *testing.T) {
	w := newWorld(t)
	w.stuck = errors.New("access denied")
	w.after(0)
	const told = "the last one is of 2026-12-01T03:00:00Z; backups that are not kept any more can't be removed: access denied"
	w.want(1, region.ReasonBackupsNotPruned, told)
	w.after(time.Minute)
	w.want(1, region.ReasonBackupsNotPruned, told)
	if w.pruned != 1 {
		t.Errorf("tried to remove them %d times within a minute, want once", w.pruned)
	}
	w.after(9 * time.Minute)
	w.want(1, region.ReasonBackupsNotPruned, told)
	if w.pruned != 2 {
		t.Errorf("tried to remove them %d times within ten minutes, want twice", w.pruned)
	}
	if got := w.metric("regiond_backup_errors_total"); got != 0 {
		t.Errorf("got %f backups that failed, want none", got)
	}
	w.stuck = nil
	w.after(10 * time.Minute)
	w.want(1, region.ReasonBackedUp, "03:00:00Z")
	w.after(time.Hour)
	if w.pruned != 3 {
		t.Errorf("tried to remove them %d times, want 3: not again once that went well", w.pruned)
	}
	w.after(5 * time.Hour)
	w.want(2, region.ReasonBackedUp, "09:20:00Z")
	if w.pruned != 4 {
		t.Errorf("tried to remove them %d times, want 4: with each backup", w.pruned)
	}
}

func TestBackupsThatAreNotDeclaredAnyMore(t *testing.T) {
	w := newWorld(t)
	w.after(0)
	r := w.region()
	r.Spec.Backup = nil
	if err := w.api.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.after(24 * time.Hour)
	if c := meta.FindStatusCondition(w.region().Status.Conditions, region.ConditionBackedUp); c != nil || w.made != 1 {
		t.Errorf("got %+v and %d backups, want no condition and one", c, w.made)
	}
	if got := w.metric("regiond_backup_last_success_timestamp_seconds"); got != 0 {
		t.Errorf("got the last success at %f, want 0", got)
	}
}

// A destination that can't be read is a failure of backups like others.
func TestDestinationThatIsAway(t *testing.T) {
	w := newWorld(t)
	w.away = errors.New("connection refused")
	w.after(0)
	w.after(time.Minute)
	w.want(0, region.ReasonBackupFailed, "connection refused")
	if got := w.metric("regiond_backup_errors_total"); got != 2 {
		t.Errorf("got %f failures, want one for each look", got)
	}
	if all := w.book.Lines(""); len(all) != 1 || !strings.Contains(all[0], "Warning BackupFailed") {
		t.Errorf("got Events %q, want one for all looks", all)
	}
	w.away = nil
	w.after(time.Minute)
	w.want(1, region.ReasonBackedUp, "03:02:00Z")
}

// A backup that hangs for ever says so, though nothing can end it.
func TestBackupThatHangs(t *testing.T) {
	w := newWorld(t)
	w.hang = make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- w.Turn(t.Context()) }()
	w.until("the alarm is set", w.clock.HasWaiters)
	w.clock.Step(5 * time.Hour)
	w.until("the alarm is told", func() bool { return len(w.book.Lines("")) > 0 && w.metric("regiond_backup_errors_total") > 0 })
	if all := w.book.Lines(""); !strings.Contains(all[0], "Warning BackupFailed") || !strings.Contains(all[0], "has not ended within 4h0m0s") {
		t.Errorf("got Events %q, want the failure", all)
	}
	close(w.hang)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.want(1, region.ReasonBackedUp, "")
}

// TestBesideData: a mount that is not there turns backups into files on the disk that they are a copy of. That is said, and
// they are made all the same.
func TestBesideData(t *testing.T) {
	w := newWorld(t)
	w.after(0)
	w.want(1, region.ReasonBackedUp, "")
	w.beside = true
	w.after(time.Minute)
	w.want(1, region.ReasonBackupsBesideData, "/mnt/b is on the disk of what is backed up")
	w.after(6 * time.Hour)
	w.want(2, region.ReasonBackupsBesideData, "/mnt/b is on the disk of what is backed up")
	w.beside = false
	w.after(time.Minute)
	w.want(2, region.ReasonBackedUp, "")
}
