package bmc

import (
	"context"
	"log/slog"
	"sync"

	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"
)

// power switches the machine. Chassis Control is answered at once and acted upon afterwards, as real BMCs do: a client that waits
// longer than a second sends its request again, and the second power cycle would boot without the one-shot flags.
type power struct {
	machine Machine
	boot    *bootOptions
	events  *eventLog
	log     *slog.Logger

	queue chan chassis.ChassisControl

	mu      sync.Mutex
	pending int                    // queued and running
	last    chassis.ChassisControl // most recently accepted
}

// queueLength bounds the actions that wait. Further ones are answered 'node busy'.
const queueLength = 4

func newPower(m Machine, o *bootOptions, e *eventLog, log *slog.Logger) *power {
	return &power{machine: m, boot: o, events: e, log: log, queue: make(chan chassis.ChassisControl, queueLength)}
}

func (p *power) register(r *handlers.Registry) {
	r.RegisterFunc(types.CommandGetChassisStatus, p.status)
	r.RegisterFunc(types.CommandChassisControl, p.control)
}

// status is Get Chassis Status (section 28.2).
func (p *power) status(ctx context.Context, _ *handlers.HandlerContext, _ []byte) ([]byte, types.CompletionCode, error) {
	on, err := p.machine.PowerState(ctx)
	if err != nil {
		p.log.Error("reading the machine's power state", slog.Any("error", err))
		return nil, types.CodeUnspecifiedError, nil
	}
	r := chassis.GetChassisStatusResponse{PowerIsOn: on}
	return r.Pack(), types.CodeOK, nil
}

// control is Chassis Control (section 28.3).
func (p *power) control(ctx context.Context, _ *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
	if len(data) < 1 {
		return nil, types.CodeRequestDataLengthInvalid, nil
	}
	action := chassis.ChassisControl(data[0] & 0x0f)
	switch action {
	case chassis.ChassisControlPowerDown, chassis.ChassisControlPowerUp, chassis.ChassisControlPowerCycle,
		chassis.ChassisControlHardReset, chassis.ChassisControlSoftShutdown:
	default:
		return nil, types.CodeParameterOutOfRange, nil
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending > 0 && p.last == action {
		return nil, types.CodeOK, nil // sent again, or asked for twice
	}
	if p.pending == 0 && action != chassis.ChassisControlPowerDown && action != chassis.ChassisControlPowerUp {
		on, err := p.machine.PowerState(ctx)
		if err != nil {
			p.log.Error("reading the machine's power state", slog.Any("error", err))
			return nil, types.CodeUnspecifiedError, nil
		}
		if !on {
			return nil, types.CodeNotSupported, nil // table 28-4: in this state
		}
	}
	select {
	case p.queue <- action:
		p.pending++
		p.last = action
		return nil, types.CodeOK, nil
	default:
		return nil, types.CodeNodeBusy, nil
	}
}

// run acts until ctx is done.
func (p *power) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case action := <-p.queue:
			if err := p.act(ctx, action); err != nil {
				p.log.Error("power action failed", slog.Any("action", action), slog.Any("error", err))
			}
			p.mu.Lock()
			p.pending--
			p.mu.Unlock()
		}
	}
}

func (p *power) act(ctx context.Context, action chassis.ChassisControl) error {
	on, err := p.machine.PowerState(ctx)
	if err != nil {
		return err
	}
	switch action {
	case chassis.ChassisControlPowerUp:
		if on {
			return nil // the boot flags stay for the next boot
		}
		return p.start(ctx, "on")
	case chassis.ChassisControlPowerDown:
		if !on {
			return nil
		}
		return p.stop(ctx)
	case chassis.ChassisControlPowerCycle:
		if err := p.stop(ctx); err != nil {
			return err
		}
		return p.start(ctx, "cycle")
	case chassis.ChassisControlHardReset:
		boot := p.boot.take()
		p.log.Info("reset", slog.Any("boot", boot.Device), slog.Bool("efi", boot.EFI))
		if err := p.machine.Reset(ctx, boot); err != nil {
			return err
		}
		p.events.add(eventHardReset)
		return nil
	case chassis.ChassisControlSoftShutdown:
		p.log.Info("soft power off")
		return p.machine.SoftOff(ctx)
	}
	return nil
}

func (p *power) start(ctx context.Context, why string) error {
	boot := p.boot.take()
	p.log.Info("power on", slog.String("command", why), slog.Any("boot", boot.Device), slog.Bool("efi", boot.EFI))
	if err := p.machine.PowerOn(ctx, boot); err != nil {
		return err
	}
	p.events.add(eventPowerOn)
	return nil
}

func (p *power) stop(ctx context.Context) error {
	p.log.Info("power off")
	if err := p.machine.PowerOff(ctx); err != nil {
		return err
	}
	p.events.add(eventPowerOff)
	return nil
}
