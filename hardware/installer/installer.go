// Package installer runs in RAM on a server that netbooted for a job: it reports what the machine is, is told
// what to do, and installs an image to the disk that regiond chose. It imports no Kubernetes
// libraries; it is the biggest part of the initramfs.
//
// It never gives up for good and never hangs: whatever goes wrong is reported to regiond and, after a
// back-off, the next instruction is asked for.
package installer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

// Config of the installer.
type Config struct {
	Ticket  enroll.Ticket
	Machine Machine
	// Version of this program.
	Version string
	Clock   diskimage.Clock
	Log     *slog.Logger
}

// Outcome is what the machine has to do at the end.
type Outcome string

// Outcomes. A reboot leads to the disk, because the network boot was for once.
const (
	Reboot   Outcome = "Reboot"
	PowerOff Outcome = "PowerOff"
)

// Policies for what goes wrong.
const (
	// maxRefusals of the ticket in a row, with back-off about four minutes, before the machine restarts: then
	// firmware and regiond decide anew what it is to do.
	maxRefusals = 12
	// maxWait bounds what an instruction may ask for.
	maxWait = 5 * time.Minute
	// reportPatience is how long the end of an installation is reported to a regiond that does not answer.
	// After that the system is booted all the same: its agent proves the installation.
	reportPatience = 10 * time.Minute
)

// run is one life of the installer.
type run struct {
	machine Machine
	api     api
	images  *http.Client
	version string
	clock   diskimage.Clock
	log     *slog.Logger
}

// Run does what regiond says until that ends in an outcome, or until the context ends.
func Run(ctx context.Context, config Config) (Outcome, error) {
	client, err := enroll.NewClient(config.Ticket.URL, []byte(config.Ticket.CA), nil)
	if err != nil {
		return Reboot, fmt.Errorf("the ticket can't be used: %w", err)
	}
	defer client.Close()
	r := &run{
		machine: config.Machine, api: api{client, config.Ticket.Token}, version: config.Version, clock: config.Clock, log: config.Log,
		// Chunks are checked against the manifest, which came over the pinned connection.
		images: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: diskimage.Writers, ResponseHeaderTimeout: diskimage.FetchTimeout}},
	}
	// Without jitter: machines start at different times anyway, and each talks to regiond once in a while only.
	askAgain := backoff.Backoff{First: time.Second, Most: 30 * time.Second}
	tryAgain := backoff.Backoff{First: 10 * time.Second, Most: maxWait}
	refusals := 0
	for {
		instruction, inv, err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return Reboot, context.Cause(ctx)
		case err != nil:
			if enroll.Denied(err) {
				refusals++
			} else {
				refusals = 0
			}
			if refusals >= maxRefusals {
				return Reboot, fmt.Errorf("this ticket is not accepted any more: %w", err)
			}
			wait := askAgain.Next()
			r.log.Warn("no instruction from regiond; asking again", slog.Any("error", err), slog.Duration("wait", wait))
			if err := r.clock.Sleep(ctx, wait); err != nil {
				return Reboot, err
			}
			continue
		}
		askAgain.Reset()
		refusals = 0
		switch {
		case instruction.PowerOff:
			r.log.Info("told to power off", slog.String("message", instruction.Message))
			return PowerOff, nil
		case instruction.BootDisk:
			r.log.Info("told to boot the disk", slog.String("message", instruction.Message))
			return Reboot, nil
		case instruction.Install != nil:
			err := r.installAndReport(ctx, inv, instruction.Install)
			if err == nil {
				return Reboot, nil
			}
			if ctx.Err() != nil {
				return Reboot, context.Cause(ctx)
			}
			wait := tryAgain.Next()
			r.log.Error("installation failed; asking again", slog.Any("error", err), slog.Duration("wait", wait))
			if err := r.clock.Sleep(ctx, wait); err != nil {
				return Reboot, err
			}
		default:
			tryAgain.Reset()
			wait := min(max(time.Duration(instruction.WaitSeconds)*time.Second, time.Second), maxWait)
			r.log.Info("told to wait", slog.String("message", instruction.Message), slog.Duration("wait", wait))
			if err := r.clock.Sleep(ctx, wait); err != nil {
				return Reboot, err
			}
		}
	}
}

// ask reports the inventory and returns the instruction. What could not be read is logged; regiond decides with
// what there is.
func (r *run) ask(ctx context.Context) (enroll.Instruction, inventory.Inventory, error) {
	inv, err := r.machine.Inventory(ctx)
	if err != nil {
		r.log.Warn("the inventory is incomplete", slog.Any("error", err))
	}
	instruction, err := r.api.inventory(ctx, enroll.InventoryReport{Inventory: inv, Version: r.version})
	return instruction, inv, err
}

// installAndReport installs, and tells regiond how it went.
func (r *run) installAndReport(ctx context.Context, inv inventory.Inventory, job *enroll.Install) error {
	p := &progress{total: job.Manifest.Bytes()}
	stop := p.reportWhile(ctx, r.api, r.clock, r.log)
	began := r.clock.Now()
	err := r.install(ctx, inv, job, p)
	stop()
	if err != nil {
		if ctx.Err() == nil {
			r.reportEnd(ctx, r.withNeighbours(p.report(stageFailed, err.Error())), time.Minute)
		}
		return err
	}
	end := r.withNeighbours(p.report(stageInstalled, ""))
	r.log.Info("installed", slog.String("image", job.Manifest.Version), slog.Int64("bytes", end.BytesWritten), slog.Int("refetched", end.Refetched),
		slog.Duration("took", r.clock.Now().Sub(began)))
	r.reportEnd(ctx, end, reportPatience)
	return nil
}

// withNeighbours adds what was heard of the network while the image was written.
func (r *run) withNeighbours(report enroll.Progress) enroll.Progress {
	report.Neighbours = r.machine.Neighbours()
	return report
}

// reportEnd reports until it is heard, refused, or patience is over.
func (r *run) reportEnd(ctx context.Context, report enroll.Progress, patience time.Duration) {
	delay := backoff.Backoff{First: time.Second, Most: 15 * time.Second}
	give := r.clock.Now().Add(patience)
	for {
		err := r.api.progress(ctx, report)
		if err == nil {
			return
		}
		r.log.Warn("the end of the installation was not reported", slog.String("stage", report.Stage), slog.Any("error", err))
		var answered *enroll.Error
		final := errors.As(err, &answered) && answered.Status/100 == 4 && answered.Status != http.StatusTooManyRequests
		if final || r.clock.Now().After(give) || r.clock.Sleep(ctx, delay.Next()) != nil {
			return
		}
	}
}
