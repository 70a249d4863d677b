package node

import (
	"context"
	"log/slog"
	"time"

	"regiond.dev/regiond/node/apply"
)

// maxReports that wait for the API server. Of more, the oldest are left out.
const maxReports = 8

// newApplier makes what holds the host to its configuration.
func (a *Agent) newApplier() error {
	if a.Services == nil {
		return nil
	}
	a.reports = make(chan apply.Report, maxReports)
	kernel, err := a.Observer.text("proc/sys/kernel/osrelease")
	if err != nil {
		a.Log.Warn("kernel release unknown", slog.Any("error", err))
	}
	image := a.Observer.imageVersion()
	if image == "" {
		image = a.id.Image
	}
	a.applier, err = apply.New(apply.Config{Root: a.Root, DataDir: a.DataDir, RunFile: a.RunFile, Services: a.Services, ReloadNetwork: a.ReloadNetwork,
		Reach: a.api.reach, Report: func(r apply.Report) { offer(a.reports, r) }, Image: image, Kernel: kernel, Now: a.Now, Log: a.Log})
	return err
}

// configure holds the host to its configuration until the context ends; stop waits for that.
func (a *Agent) configure(ctx context.Context) (wanted chan string, stop func()) {
	wanted = make(chan string, 1)
	if a.applier == nil {
		return wanted, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.applier.Run(ctx, wanted)
	}()
	return wanted, func() {
		cancel()
		<-done
	}
}

// offer puts a value into a channel in whose place the oldest goes when it is full. There is one sender.
func offer[T any](c chan T, value T) {
	for {
		select {
		case c <- value:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// wait lets time pass, and writes what the applier reports meanwhile. It returns false when the context ends.
func (a *Agent) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case r := <-a.reports:
			a.said = r
			a.report(ctx)
		case <-t.C:
			return true
		}
	}
}
