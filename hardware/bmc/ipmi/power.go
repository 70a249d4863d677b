package ipmi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/chassis"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
)

// Power reads the power state.
func (b *BMC) Power(ctx context.Context) (region.PowerState, error) {
	var r chassis.GetChassisStatusResponse
	if err := b.do(ctx, "read power state", &chassis.GetChassisStatusRequest{}, &r); err != nil {
		return region.PowerUnknown, err
	}
	if r.PowerIsOn {
		return region.PowerOn, nil
	}
	return region.PowerOff, nil
}

// SetPower acts and returns when the state that the action leads to was observed, or with an error when ctx ends
// before. A state that is there already is left alone, so it may be called again after any error.
func (b *BMC) SetPower(ctx context.Context, action bmc.PowerAction) error {
	switch action {
	case bmc.On:
		return b.reach(ctx, region.PowerOn, chassis.ChassisControlPowerUp)
	case bmc.Off:
		return b.reach(ctx, region.PowerOff, chassis.ChassisControlPowerDown)
	case bmc.Cycle:
		// The BMC's own power cycle command is not used: it cannot be observed, is refused with 0xD5 by
		// a server that is off, and a repeated packet would cycle twice.
		if err := b.reach(ctx, region.PowerOff, chassis.ChassisControlPowerDown); err != nil {
			return err
		}
		return b.reach(ctx, region.PowerOn, chassis.ChassisControlPowerUp)
	case bmc.SoftOff:
		return b.softOff(ctx)
	}
	return b.fail(bmc.Terminal, region.ReasonUnsupportedByBMC, "set power", fmt.Sprintf("unknown power action %q", action), "use On, Off, Cycle or SoftOff", nil)
}

// reach brings the server into the wanted state by the given command.
func (b *BMC) reach(ctx context.Context, want region.PowerState, control chassis.ChassisControl) error {
	operation := "power " + string(want)
	// A context with a deadline is the bound; it goes by the machine's clock, not by b.c.Clock.
	_, bounded := ctx.Deadline()
	deadline := b.c.Clock.Now().Add(b.c.PowerTimeout)
	var sent time.Time
	var refusal, silence error // of the last control command, and of the last reading of the state
	state := region.PowerUnknown
	for {
		observed, err := b.Power(ctx)
		switch {
		case err == nil && observed == want:
			return nil
		case err == nil:
			state, silence = observed, nil
		case bmc.Class(err) == bmc.Terminal, ctx.Err() != nil && state == region.PowerUnknown:
			return err
		case ctx.Err() != nil:
			return b.unchanged(operation, want, state, errors.Join(context.Cause(ctx), refusal))
		default:
			// A BMC may fall silent while it switches the power; the deadline bounds this.
			silence = err
		}
		now := b.c.Clock.Now()
		if !bounded && !now.Before(deadline) {
			return b.unchanged(operation, want, state, errors.Join(refusal, silence))
		}
		if err == nil && (sent.IsZero() || now.Sub(sent) >= b.c.ControlInterval) {
			refusal = b.control(ctx, operation, control)
			if bmc.Class(refusal) == bmc.Terminal {
				return refusal
			}
			sent = now
		}
		if err := b.sleep(ctx, b.c.PollInterval); err != nil {
			return b.unchanged(operation, want, state, errors.Join(err, refusal))
		}
	}
}

func (b *BMC) unchanged(operation string, want, state region.PowerState, cause error) error {
	return b.fail(bmc.Retry, region.ReasonPowerStateUnchanged, operation,
		fmt.Sprintf("the power state is %s, not %s", state, want), "look at the server's console and at the BMC's event log", cause)
}

func (b *BMC) control(ctx context.Context, operation string, control chassis.ChassisControl) error {
	return b.do(ctx, operation, &chassis.ChassisControlRequest{ChassisControl: control}, &chassis.ChassisControlResponse{})
}

// ShutDown asks the operating system to shut down and returns at once. It never cuts the power.
func (b *BMC) ShutDown(ctx context.Context) error {
	state, err := b.Power(ctx)
	if err != nil || state == region.PowerOff {
		return err
	}
	return b.control(ctx, "ask for a shutdown", chassis.ChassisControlSoftShutdown)
}

// softOff asks the operating system, and cuts the power when it does not obey in time.
func (b *BMC) softOff(ctx context.Context) error {
	const operation = "soft power off"
	state, err := b.Power(ctx)
	if err != nil || state == region.PowerOff {
		return err
	}
	err = b.control(ctx, operation, chassis.ChassisControlSoftShutdown)
	if err != nil && !answered(err) {
		// Lost on the way or refused for the user: no reason to pull the plug.
		return err
	}
	if err != nil {
		// Soft shutdown is optional (table 28-4).
		b.log.Info("BMC does not do a soft power off, cutting the power", slog.Any("error", err))
		return b.reach(ctx, region.PowerOff, chassis.ChassisControlPowerDown)
	}
	until := b.c.Clock.Now().Add(b.c.SoftOffTimeout)
	for b.c.Clock.Now().Before(until) {
		if err := b.sleep(ctx, b.c.PollInterval); err != nil {
			return b.unchanged(operation, region.PowerOff, state, err)
		}
		state, err = b.Power(ctx)
		switch {
		case err == nil && state == region.PowerOff:
			return nil
		case bmc.Class(err) == bmc.Terminal:
			return err
		case ctx.Err() != nil:
			return b.unchanged(operation, region.PowerOff, state, context.Cause(ctx))
		}
	}
	b.log.Info("operating system did not shut down in time, cutting the power", slog.Duration("waited", b.c.SoftOffTimeout))
	return b.reach(ctx, region.PowerOff, chassis.ChassisControlPowerDown)
}
