package ipmi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/types"
	"k8s.io/utils/clock"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/bmc/internal/rmcp"
	"regiond.dev/regiond/region"
)

// Config of the driver for one BMC. Only the Target is needed; zero values are defaults.
type Config struct {
	bmc.Target
	// Privilege of the session. Default OPERATOR, the least that may switch power and set boot options
	// (appendix G), so that BMC users need not be administrators.
	Privilege types.PrivilegeLevel

	// CommandInterval is the least time from the end of a command to the next one. Default 100 ms. Field
	// reports of BMCs that freeze after bursts ask for 5 s between runs of ipmitool; each of those is a
	// whole handshake and teardown of ten packets. Here that is SessionInterval's part, and a command is one packet.
	CommandInterval time.Duration
	// SessionInterval is the least time between the starts of two sessions. Default 5 s.
	SessionInterval time.Duration
	// Timeout of the first attempt of a command, doubled for each further one. Default 1 s: 1+2+4 s
	// with Attempts, longer than the 5 s within which a BMC must answer.
	Timeout time.Duration
	// Attempts for each command. Default 3.
	Attempts int
	// IdleTimeout after which a session without commands is closed. Default 30 s; BMCs drop it after 60 s (section 6.12.15).
	IdleTimeout time.Duration
	// PollInterval of the power state. Default 2 s.
	PollInterval time.Duration
	// ControlInterval after which a power command that had no effect is sent again. Default 10 s. BMCs ignore or
	// refuse power-on for some seconds after the power went off.
	ControlInterval time.Duration
	// SoftOffTimeout is what an operating system gets to shut down. Default 3 min.
	SoftOffTimeout time.Duration
	// PowerTimeout bounds the wait for a power state when the context does not. Default 2 min.
	PowerTimeout time.Duration

	// Dropped is called for each datagram that does not answer what was asked: malformed, forged, replayed or late.
	Dropped func()

	Clock clock.WithDelayedExecution
	Log   *slog.Logger
}

// String leaves the password out.
func (c Config) String() string { return c.Username + "@" + c.Address.String() }

// GoString leaves the password out.
func (c Config) GoString() string { return fmt.Sprintf("ipmi.Config{%s}", c) }

// LogValue leaves the password out.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// BMC is one BMC with one user. All methods may be called from many goroutines; they run one after the other.
type BMC struct {
	c   Config
	log *slog.Logger

	// mutex is one whose wait a context ends.
	mutex chan struct{}

	// All below belong to whoever holds the mutex.
	link        *link
	session     *session
	suite       types.CipherSuiteID // that worked last; 0 when none has yet
	refused     error               // credentials were refused: not tried again by this value
	closed      bool
	lastCommand time.Time
	lastOpen    time.Time
	idle        clock.Timer

	quirksMu sync.Mutex
	quirks   []string
}

// New makes the driver for one BMC. Nothing is sent yet. It refuses credentials that no BMC can hold.
func New(c Config) (*BMC, error) {
	if err := checkCredentials(c.Target); err != nil {
		return nil, err
	}
	c.Privilege = cmp.Or(c.Privilege, types.PrivilegeLevelOperator)
	c.CommandInterval = cmp.Or(c.CommandInterval, 100*time.Millisecond)
	c.SessionInterval = cmp.Or(c.SessionInterval, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	c.Attempts = cmp.Or(c.Attempts, 3)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	c.PollInterval = cmp.Or(c.PollInterval, 2*time.Second)
	c.ControlInterval = cmp.Or(c.ControlInterval, 10*time.Second)
	c.SoftOffTimeout = cmp.Or(c.SoftOffTimeout, 3*time.Minute)
	c.PowerTimeout = cmp.Or(c.PowerTimeout, 2*time.Minute)
	if c.Dropped == nil {
		c.Dropped = func() {}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	b := &BMC{c: c, log: c.Log.With(slog.String("bmc", c.Address.String())), mutex: make(chan struct{}, 1)}
	return b, nil
}

// Close ends the session, also when ctx is done already: a session that is left open takes one of the BMC's few slots.
// The BMC cannot be used afterwards.
func (b *BMC) Close(ctx context.Context) error {
	// Waiting for the mutex is bounded by the running command, which has its own context.
	b.mutex <- struct{}{}
	defer b.release()
	b.closed = true
	return b.endSession(ctx)
}

// Quirks are the deviations from the specification that were seen so far, sorted.
func (b *BMC) Quirks() []string {
	b.quirksMu.Lock()
	defer b.quirksMu.Unlock()
	return slices.Clone(b.quirks)
}

func (b *BMC) quirk(text string) {
	b.quirksMu.Lock()
	defer b.quirksMu.Unlock()
	if at, found := slices.BinarySearch(b.quirks, text); !found {
		b.quirks = slices.Insert(b.quirks, at, text)
		b.log.Info("BMC deviates from IPMI v2.0", slog.String("quirk", text))
	}
}

// acquire waits for the mutex.
func (b *BMC) acquire(ctx context.Context, operation string) error {
	select {
	case b.mutex <- struct{}{}:
	case <-ctx.Done():
		return b.fail(bmc.Retry, region.ReasonBMCBusy, operation, "other commands to this BMC were not finished in time", "", context.Cause(ctx))
	}
	if b.closed {
		b.release()
		return b.fail(bmc.Retry, region.ReasonBMCSessionsClosed, operation, "the driver is closed", "", nil)
	}
	return nil
}

func (b *BMC) release() { <-b.mutex }

// do sends one command and decodes its response. A session that the BMC no longer knows is opened again and the
// command repeated, once: all commands of this package may be executed twice.
func (b *BMC) do(ctx context.Context, operation string, request types.Request, response types.Response) error {
	if err := b.acquire(ctx, operation); err != nil {
		return err
	}
	defer b.release()
	defer b.armIdle()
	err := b.turnDo(ctx, request, response)
	return b.explain(operation, err)
}

// busyAttempts bounds how often a command is repeated that the BMC answers with 'node busy' (0xC0).
const busyAttempts = 4

func (b *BMC) turnDo(ctx context.Context, request types.Request, response types.Response) error {
	for busy, lost := 0, false; ; {
		if err := b.ensureSession(ctx); err != nil {
			return err
		}
		err := b.command(ctx, request, response)
		switch {
		case !lost && ctx.Err() == nil && (errors.Is(err, errNoAnswer) || errors.Is(err, errRefused)):
			// A restarted BMC does not answer packets of sessions it does not know.
			lost = true
			b.log.Info("BMC does not answer in the session, opening a new one", slog.Any("error", err))
			b.drop()
		case errors.Is(err, types.CodeNodeBusy) && busy < busyAttempts:
			busy++
			if err := b.sleep(ctx, b.c.Timeout); err != nil {
				return err
			}
		case errors.Is(err, errNoAnswer), errors.Is(err, errRefused):
			b.drop()
			return err
		default:
			return err
		}
	}
}

// command is one request in the open session.
func (b *BMC) command(ctx context.Context, request types.Request, response types.Response) error {
	if err := b.sleep(ctx, b.c.CommandInterval-b.c.Clock.Since(b.lastCommand)); err != nil {
		return err
	}
	cmd := request.Command()
	r, err := b.session.roundTrip(ctx, b.link, b.link.attempts, rmcp.Request{NetFn: uint8(cmd.NetFn), Command: cmd.ID, Data: request.Pack()})
	b.lastCommand = b.c.Clock.Now()
	if err != nil {
		return err
	}
	if r.CompletionCode != 0 {
		return completionError{cmd, types.CompletionCode(r.CompletionCode)}
	}
	if err := unpack(response, r.Data); err != nil {
		return fmt.Errorf("response to %s: %w", cmd.Name, err)
	}
	return nil
}

// completionError is a completion code with its command, for codes mean different things per command.
type completionError struct {
	command types.Command
	code    types.CompletionCode
}

func (e completionError) Error() string {
	return fmt.Sprintf("%s: completion code 0x%02x (%s)", e.command.Name, uint8(e.code), types.StrCC(e.command, uint8(e.code)))
}
func (e completionError) Unwrap() error { return e.code }

// sleep waits by the clock, and not at all when d is not positive.
func (b *BMC) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-b.c.Clock.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// armIdle closes the session when no command follows for the idle time.
func (b *BMC) armIdle() {
	if b.idle != nil {
		b.idle.Stop()
		b.idle = nil
	}
	if b.session == nil {
		return
	}
	since := b.lastCommand
	b.idle = b.c.Clock.AfterFunc(b.c.IdleTimeout, func() {
		select {
		case b.mutex <- struct{}{}:
		default:
			return // in use; whoever uses it arms the timer again
		}
		defer b.release()
		if b.session != nil && b.lastCommand.Equal(since) {
			if err := b.endSession(context.Background()); err != nil {
				b.log.Debug("closing an idle session", slog.Any("error", err))
			}
		}
	})
}

// drop forgets the session without telling the BMC, which no longer answers in it.
func (b *BMC) drop() {
	b.session = nil
	if b.link != nil {
		b.link.close()
		b.link = nil
	}
}

// endSession sends Close Session, once, and forgets the session whatever the answer is.
func (b *BMC) endSession(ctx context.Context) error {
	if b.idle != nil {
		b.idle.Stop()
		b.idle = nil
	}
	defer b.drop()
	if b.session == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.c.Timeout)
	defer cancel()
	request := app.CloseSessionRequest{SessionID: b.session.bmcID}
	cmd := request.Command()
	_, err := b.session.roundTrip(ctx, b.link, waits{b.c.Timeout}, rmcp.Request{NetFn: uint8(cmd.NetFn), Command: cmd.ID, Data: request.Pack()})
	if err != nil {
		return b.explain("close session", err)
	}
	return nil
}
