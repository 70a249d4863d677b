package installer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
)

// Stages, as in region.InstallStage (which this package does not import: it comes with Kubernetes).
const (
	stageWriting   = "Writing"
	stageInstalled = "Installed"
	stageFailed    = "Failed"
)

// reportEvery is how often progress is reported while an image is written.
const reportEvery = time.Second

// progress counts what an installation has done. The zero value counts nothing.
type progress struct {
	total   int64
	written atomic.Int64
	mu      sync.Mutex
	fetcher *diskimage.Fetcher
}

// watch has the fetcher's count of bad chunks reported, too.
func (p *progress) watch(f *diskimage.Fetcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetcher = f
}

func (p *progress) report(stage, message string) enroll.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	report := enroll.Progress{Stage: stage, BytesWritten: p.written.Load(), BytesTotal: p.total, Message: message}
	if p.fetcher != nil {
		report.Refetched = p.fetcher.Refetched()
	}
	return report
}

// reportWhile reports progress once in a while until stop is called, which waits for the report under way: one that was
// cancelled could still reach regiond after the report of the end, and be believed. That regiond cannot be reached does not
// stop an installation: its end is reported until it is heard.
func (p *progress) reportWhile(ctx context.Context, api api, clock diskimage.Clock, log *slog.Logger) (stop func()) {
	more, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			if err := api.progress(ctx, p.report(stageWriting, "")); err != nil && ctx.Err() == nil {
				log.Warn("progress was not reported", slog.Any("error", err))
			}
			if clock.Sleep(more, reportEvery) != nil {
				return
			}
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}
