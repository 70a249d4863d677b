package nodeinit

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/test/lab/nodeinit/unit"
)

// ended cleans up after a main process that ended by itself. The caller holds work.
func (v *supervised) ended(r *running) (clean, signalled bool) {
	status := r.main.status
	clean = !status.Signaled() && (status.ExitStatus() == 0 || slices.Contains(r.unit.SuccessExitStatus, strconv.Itoa(status.ExitStatus())))
	if status.Signaled() { // systemd.service(5), SuccessExitStatus
		clean = slices.Contains([]syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}, status.Signal())
	}
	v.after(r)
	if clean {
		v.set(func(s *State) { s.Active, s.Sub, s.PID = service.Inactive, "dead", 0 })
	} else {
		v.failed(&exitError{status: status})
	}
	return clean, status.Signaled() && !clean
}

// after a run: what is left of it ends, unless the unit says that it lives on.
func (v *supervised) after(r *running) {
	ctx, cancel := withTimeout(context.Background(), r.unit.TimeoutStop)
	defer cancel()
	for _, c := range r.unit.StopPost {
		if err := v.command(ctx, r, c); err != nil {
			v.log.Warn("ExecStopPost failed", slog.Any("error", err))
		}
	}
	if r.unit.KillMode == unit.KillGroup {
		v.endMembers(ctx)
	}
	if r.unit.KillMode != unit.KillProcess {
		killAll(v.name, 0)
	}
	v.removeDirectories(r.unit)
}

// endMembers asks what is left of a unit to end, and waits for it.
func (v *supervised) endMembers(ctx context.Context) {
	left := members(v.name, 0)
	for _, pid := range left {
		_ = unix.Kill(pid, unix.SIGTERM) // it may have ended
	}
	t := time.NewTicker(20 * time.Millisecond) // they are not our children: there is nothing to wait for
	defer t.Stop()
	for len(left) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		left = members(v.name, 0)
	}
}

// stop stops the service. When all ends, what lives on otherwise ends, too.
func (v *supervised) stop(ctx context.Context, all bool) error {
	v.s.mu.Lock()
	if v.cancel != nil {
		v.cancel() // a start that is under way ends, too, and lets go of work
	}
	v.s.mu.Unlock()
	v.work.Lock()
	defer v.work.Unlock()
	state, r := v.get()
	v.s.mu.Lock()
	v.run = nil
	v.s.mu.Unlock()
	if r != nil && state.Runs() {
		v.set(func(s *State) { s.Active, s.Sub = service.Deactivating, "stop" })
		ctx, cancel := withTimeout(ctx, r.unit.TimeoutStop)
		for _, c := range r.unit.Stop {
			if err := v.command(ctx, r, c, r.mainPID()...); err != nil {
				v.log.Warn("ExecStop failed", slog.Any("error", err))
			}
		}
		cancel()
		if r.main != nil {
			v.end(r, r.main, signalNumber(r.unit.KillSignal))
		}
		v.after(r)
	}
	if all {
		killAll(v.name, 0)
	}
	if state.Active != service.Inactive {
		v.log.Info("unit stopped")
	}
	v.set(func(s *State) { s.Active, s.Sub, s.PID, s.Message = service.Inactive, "dead", 0, "" })
	return nil
}

// end ends a main process: asked first, killed when its time is up.
func (v *supervised) end(r *running, main *child, signal syscall.Signal) {
	if !ended(main) && r.unit.KillMode == unit.KillGroup {
		for _, pid := range members(v.name, main.pid) {
			_ = unix.Kill(pid, signal) // it may have ended
		}
	}
	v.s.reaper.signal(main, signal)
	ctx, cancel := withTimeout(context.Background(), r.unit.TimeoutStop)
	defer cancel()
	select {
	case <-main.done:
		return
	case <-ctx.Done():
	}
	v.log.Warn("unit does not stop in time and is killed", slog.Duration("after", r.unit.TimeoutStop))
	v.s.reaper.signal(main, syscall.SIGKILL)
	<-main.done
}

// signalNumber by its name without SIG; SIGTERM for one that is not known.
func signalNumber(name string) syscall.Signal {
	if n := unix.SignalNum("SIG" + name); n != 0 {
		return n
	}
	return syscall.SIGTERM
}
