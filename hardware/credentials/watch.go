package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watching.
const (
	// settle lets an editor finish: one save makes several events.
	settle = 200 * time.Millisecond
	// every is how often files are read without an event: a directory may be replaced, or the files
	// be on a file system without inotify.
	every = time.Minute
)

// Watch keeps the Secrets in step with the files until the context ends.
func (i *Importer) Watch(ctx context.Context, log *slog.Logger) error {
	if len(i.credentials) == 0 {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch credentials files: %w", err)
	}
	defer w.Close()
	// Directories, not files: editors and configuration management replace a file by renaming over it.
	for _, c := range i.credentials {
		if err := w.Add(filepath.Dir(c.File)); err != nil {
			log.Warn("credentials file is read every minute only", slog.String("credentials", c.Name), slog.String("file", c.File), slog.Any("error", err))
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.Events:
			if i.named(e.Name) {
				due = time.After(settle)
			}
			continue
		case err := <-w.Errors:
			log.Warn("watching credentials files", slog.Any("error", err))
			continue
		case <-due:
			due = nil
		case <-tick.C:
		}
		if err := i.Sync(ctx); err != nil && ctx.Err() == nil {
			log.Error("credentials not imported", slog.Any("error", err))
		}
	}
}

func (i *Importer) named(path string) bool {
	for _, c := range i.credentials {
		if filepath.Clean(c.File) == filepath.Clean(path) {
			return true
		}
	}
	return false
}
