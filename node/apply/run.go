package apply

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"regiond.dev/regiond/machine/backoff"
)

// settle is how long to wait after a file changed for what changes with it, e.g. when an editor saves.
const settle = 200 * time.Millisecond

// Run holds the host to its configuration until the context ends: to the last one from the beginning, whether or not the control
// plane answers, and to each that comes through wanted.
func (a *Applier) Run(ctx context.Context, wanted <-chan string) {
	changes := watcher(a.Log)
	if changes != nil {
		defer changes.Close()
	}
	var watched []string
	tick := time.NewTicker(a.Look)
	defer tick.Stop()
	for {
		if err := a.step(ctx); err != nil && ctx.Err() == nil {
			a.Log.Warn("host not checked", slog.Any("error", err))
		}
		var events <-chan fsnotify.Event
		if changes != nil {
			watched = follow(changes, watched, a.folders())
			events = changes.Events
		}
		select {
		case <-ctx.Done():
			return
		case content := <-wanted:
			a.want(content)
		case <-tick.C:
		case <-events:
			if !backoff.Sleep(ctx, settle) {
				return
			}
			drain(events)
		}
	}
}

// watcher is nil where the kernel has none to give: files are looked at on time then.
func watcher(log *slog.Logger) *fsnotify.Watcher {
	w, err := fsnotify.NewBufferedWatcher(256)
	if err != nil {
		log.Warn("changes of files are found by looking only", slog.Any("error", err))
		return nil
	}
	go func() { // until it is closed; what an overflow has swallowed is found by looking
		for err := range w.Errors {
			log.Debug("watching files", slog.Any("error", err))
		}
	}()
	return w
}

// follow watches these folders and no others. One that is not there is followed when it is.
func follow(w *fsnotify.Watcher, watched, folders []string) []string {
	var now []string
	for _, f := range watched {
		if !slices.Contains(folders, f) {
			_ = w.Remove(f) // gone with its folder
		}
	}
	for _, f := range folders {
		if w.Add(f) == nil {
			now = append(now, f)
		}
	}
	return now
}

func drain(events <-chan fsnotify.Event) {
	for {
		select {
		case <-events:
		default:
			return
		}
	}
}
