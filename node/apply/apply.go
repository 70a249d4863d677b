// Package apply makes a host what its configuration says: it writes files whole or not at all,
// restarts only what reads what has changed, says what every process was started with, repairs what
// others change, and rolls back a network configuration that cut the host off. Everything may be
// interrupted at any point, by a kill or a power cut: the journal says what is to be done, and the
// plan is computed again from what is there.
package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/account"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/region"
)

// Services are a host's services, which service.Systemd manages. Any method MAY be called again after
// the agent was killed in the middle of it, and MUST then bring about the same as one call. An order
// MUST NOT return nil before the service is ready, or has ended.
type Services interface {
	// States MUST have an entry for each name; a service without a unit file is Missing, and no error.
	States(ctx context.Context, names []string) (map[string]service.State, error)
	// Start MUST start a service also if it failed before, and MUST leave one that runs alone.
	Start(ctx context.Context, name string) error
	// Stop of a service that does not run MUST be nil.
	Stop(ctx context.Context, name string) error
	// Restart MUST start a service that does not run.
	Restart(ctx context.Context, name string) error
	// Reload MUST NOT end the service. An error means that it MAY run with its old files: it is
	// restarted then.
	Reload(ctx context.Context, name string) error
	// Enable has a service started at boot, Disable ends that. Neither starts or stops it.
	Enable(ctx context.Context, name string) error
	Disable(ctx context.Context, name string) error
	// ReloadUnits MUST be called after a unit file has changed and before an order to its service.
	ReloadUnits(ctx context.Context) error
}

// Folder of the journal on the data partition.
const Folder = "configuration"

// DefaultRunFile is where the agent keeps what it knows of this boot's processes.
const DefaultRunFile = "/run/regiond/processes.json"

// Config of an Applier.
type Config struct {
	// Root of the file system, / but in tests.
	Root string
	// DataDir holds the journal's Folder: the data partition.
	DataDir string
	// RunFile is where records of processes are kept; they are void after a boot.
	RunFile  string
	Services Services
	// ReloadNetwork has systemd-networkd read its files again.
	ReloadNetwork func(context.Context) error
	// Reach makes a request to the API server over a new connection.
	Reach func(context.Context) error
	// Report is told what there is to say, whenever it changed. It must not block.
	Report func(Report)
	// Image and Kernel that run.
	Image, Kernel string
	// Probe is how long a changed network may take until the API server answers, Settle how long the old one may still
	// answer, Look how often files and services are looked at. They default to 60 s, 3 s and 5 s.
	Probe, Settle, Look time.Duration
	Now                 func() time.Time
	Log                 *slog.Logger
}

// Applier of configurations to this host. Its methods are for one goroutine.
type Applier struct {
	Config
	disk     *disk
	accounts *account.Accounts
	journal  journal
	records  records
	wanted   wanted
	// problem with the wanted configuration, until it is solved.
	problem *problem
	retry   retries
	last    Report
	// between is called between steps. Tests let it fail there, as if the power was cut.
	between func(string) error
}

// wanted is what the control plane has said.
type wanted struct {
	digest  string
	content string
	conf    configuration.Configuration
}

// problem in the words of the condition.
type problem struct {
	reason, message string
	again           time.Time
}

// New reads the journal.
func New(c Config) (*Applier, error) {
	if c.Root == "" || c.DataDir == "" || c.Log == nil {
		return nil, errors.New("apply: Root, DataDir and Log are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Probe == 0 {
		c.Probe = configuration.ProbeSeconds * time.Second
	}
	if c.Settle == 0 {
		c.Settle = 3 * time.Second
	}
	if c.Look == 0 {
		c.Look = 5 * time.Second
	}
	a := &Applier{Config: c, disk: &disk{root: c.Root, seen: map[string]seen{}}, journal: journal{dir: filepath.Join(c.DataDir, Folder), log: c.Log},
		between: func(string) error { return nil }, retry: retries{}}
	if err := a.journal.load(); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	a.records = loadRecords(c.RunFile, c.Log)
	return a, nil
}

// Restore brings back the files that the host holds to, before anything that reads them starts: after a boot from another image
// /etc is a fresh one. A network configuration that was not confirmed before the boot is rolled back. It touches no service.
func (a *Applier) Restore() error {
	want, owned := a.target(), Names{}
	if p := a.journal.pending; p != nil {
		owned = p.Owned
		if a.unconfirmed() {
			want = p.Back
		}
	}
	if len(want.Files)+len(owned.Files) == 0 {
		return nil
	}
	var err error
	if a.accounts, err = account.Read(a.Root); err != nil {
		return err
	}
	files, err := a.disk.read(a.accounts, namesOf(want).with(owned).Files)
	if err != nil {
		return err
	}
	steps := planFiles(want, Situation{Files: files, Owned: owned})
	if err := a.stage(steps); err != nil {
		return err
	}
	return a.place(steps)
}

// target is what the host is to be, as far as is known.
func (a *Applier) target() configuration.Configuration {
	switch {
	case a.journal.pending != nil:
		return a.journal.pending.Configuration
	case a.journal.applied != nil:
		return a.journal.applied.Configuration
	}
	return configuration.Configuration{}
}

// resume finishes what was interrupted.
func (a *Applier) resume(ctx context.Context) error {
	p := a.journal.pending
	switch {
	case p == nil:
		return nil
	case a.unconfirmed():
		return a.interrupted(ctx)
	}
	a.Log.Info("an interrupted configuration is continued", slog.String("digest", short(p.Digest)))
	return a.finish(ctx)
}

// unconfirmed says whether what is pending can have cut the host off. Once it is kept as applied it has not.
func (a *Applier) unconfirmed() bool {
	p := a.journal.pending
	return p != nil && p.Network && (a.journal.applied == nil || a.journal.applied.Digest != p.Digest)
}

// want says what the control plane wants.
func (a *Applier) want(content string) {
	if content == a.wanted.content {
		return
	}
	conf, digest, err := configuration.Decode([]byte(content))
	if err == nil && !utf8.ValidString(content) {
		err = errors.New("it is not UTF-8")
	}
	a.retry = retries{}
	a.wanted = wanted{digest, content, conf}
	a.problem = nil
	if err != nil {
		a.wanted.digest = ""
		reason := region.ReasonConfigurationInvalid
		if errors.Is(err, configuration.ErrUnknown) {
			reason, err = region.ReasonConfigurationUnknown, fmt.Errorf("%w; give the host a newer image, or return the control plane to the regiond before", err)
		}
		a.problem = &problem{reason: reason,
			message: fmt.Sprintf("the configuration in the Secret is refused, and the last one stays in force: %v", err)}
		a.Log.Error("configuration refused", slog.Any("error", err))
	}
}

// step brings the host nearer to what is wanted, or looks after it. It is called whenever something may have changed.
func (a *Applier) step(ctx context.Context) error {
	var err error
	if a.accounts, err = account.Read(a.Root); err != nil {
		return err
	}
	if err := a.advance(ctx); err != nil {
		if errors.Is(err, errCut) || ctx.Err() != nil {
			return err
		}
		again := a.retry.after("apply", a.Now())
		a.problem = &problem{reason: region.ReasonConfigurationApplyFailed, message: fmt.Sprintf("%v; the agent tries again", err), again: again}
		a.Log.Warn("configuration not applied yet", slog.Any("error", err), slog.Time("again", again))
	}
	return a.look(ctx)
}

func (a *Applier) advance(ctx context.Context) error {
	if a.problem != nil && a.Now().Before(a.problem.again) {
		return nil
	}
	if a.journal.pending != nil && !a.differs() {
		if err := a.resume(ctx); err != nil {
			return err
		}
	} else if a.differs() && !a.stopped() {
		if err := a.apply(ctx); err != nil {
			return err
		}
	}
	if a.problem != nil && a.problem.reason == region.ReasonConfigurationApplyFailed {
		a.problem = nil
	}
	a.retry.done("apply")
	if a.differs() {
		a.stopped() // it was rolled back just now
	}
	return nil
}

// differs says whether what is wanted is not what the host holds to, or is on its way to.
func (a *Applier) differs() bool {
	switch {
	case a.wanted.digest == "":
		return false
	case a.journal.pending != nil:
		return a.journal.pending.Digest != a.wanted.digest
	}
	return a.journal.applied == nil || a.journal.applied.Digest != a.wanted.digest
}

// stopped says whether what is wanted has cut the host off before.
func (a *Applier) stopped() bool {
	r := a.journal.refused
	if r == nil || !r.Final || r.Digest != a.wanted.digest {
		return false
	}
	a.problem = &problem{reason: region.ReasonRolledBack, message: fmt.Sprintf("configuration %s was rolled back at %s: %s; it is not tried again until it changes",
		short(r.Digest), r.Time.UTC().Format(time.RFC3339), r.Reason)}
	return true
}

// apply applies what is wanted.
func (a *Applier) apply(ctx context.Context) error {
	want := a.wanted
	if err := a.check(want.conf); err != nil {
		return err
	}
	p := &pending{applied: applied{Digest: want.digest, Time: a.Now().UTC().Truncate(time.Second), Content: want.content, Configuration: want.conf},
		Owned: namesOf(want.conf)}
	before := configuration.Configuration{}
	if a.journal.applied != nil {
		before = a.journal.applied.Configuration
		p.Owned = p.Owned.with(namesOf(before))
	}
	if old := a.journal.pending; old != nil { // superseded by this one
		p.Owned = p.Owned.with(old.Owned)
		if a.unconfirmed() {
			before = old.Back
		}
	}
	s, err := a.situation(ctx, want.conf, p.Owned)
	if err != nil {
		return err
	}
	plan := Plan(want.conf, s)
	if p.Network = changesNetwork(plan, before); p.Network {
		p.Back = a.back(before, want.conf, s)
	}
	a.Log.Info("applying configuration", slog.String("digest", short(want.digest)), slog.Int("steps", len(plan)), slog.Bool("network", p.Network))
	if len(plan) > 0 {
		a.say(ctx, region.ReasonConfigurationApplying, fmt.Sprintf("configuration %s is being applied", short(want.digest)))
	}
	fresh := a.journal.pending == nil
	if err := a.journal.begin(p); err != nil {
		return err
	}
	if err := a.between("begun"); err != nil {
		return err
	}
	err = a.finish(ctx)
	if unstaged := (*stageError)(nil); fresh && errors.As(err, &unstaged) && a.journal.pending == p {
		return errors.Join(err, a.journal.drop()) // nothing was changed
	}
	return err
}

// stageError says that no file was changed, since one of them can't be written.
type stageError struct{ error }

func (e *stageError) Unwrap() error { return e.error }

// finish gets the host to what is pending, and commits that.
func (a *Applier) finish(ctx context.Context) error {
	p := a.journal.pending
	if err := a.converge(ctx, p.Configuration, p.Owned); err != nil {
		if unstaged := (*stageError)(nil); !a.unconfirmed() || errors.Is(err, errCut) || ctx.Err() != nil || errors.As(err, &unstaged) {
			return err
		}
		return errors.Join(err, a.rollBack(ctx, "it could not be applied: "+err.Error()))
	}
	if a.unconfirmed() {
		if err := a.probe(ctx); err != nil {
			if errors.Is(err, errCut) || ctx.Err() != nil {
				return err
			}
			return a.rollBack(ctx, err.Error())
		}
		a.Log.Info("the API server is reached by the changed network")
	}
	if err := a.journal.commit(a.between); err != nil {
		return err
	}
	a.records.Repaired = ""
	a.disk.unstage(p.Owned.Files)
	return nil
}

// check what can be checked before anything is touched.
func (a *Applier) check(c configuration.Configuration) error {
	var missing []string
	add := func(err error) {
		if err != nil && !slices.Contains(missing, err.Error()) {
			missing = append(missing, err.Error())
		}
	}
	for _, f := range c.Files {
		_, err := a.accounts.User(f.Owner)
		add(err)
		_, err = a.accounts.Group(f.Group)
		add(err)
	}
	if len(missing) > 0 {
		return errors.New(strings.Join(missing, "; "))
	}
	return nil
}

func short(digest string) string { return digest[:min(12, len(digest))] }

// errCut ends an Applier in tests, as a power cut does.
var errCut = errors.New("cut")
