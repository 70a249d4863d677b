package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// ErrRestart is returned by Run when the stored Region has changed in fields that are read at a start
// (region.AtStart). Everything was stopped as for any other end; the caller starts regiond again.
var ErrRestart = errors.New("the region's declaration has changed: regiond restarts")

// declarationInterval is how often the stored Region is compared with the one of the start.
const declarationInterval = 2 * time.Second

// watchDeclaration closes changed when regiond has to restart for what was declared since its start.
// It ends then, or with the context.
func (r *run) watchDeclaration(ctx context.Context, changed chan<- struct{}) {
	t := time.NewTicker(declarationInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		stored := &region.Region{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: r.region.Name}, stored); err != nil {
			continue // while the API server does not answer, nothing can be declared
		}
		stored.SetGroupVersionKind(region.GroupVersion.WithKind("Region"))
		d := r.restart(ctx, stored)
		r.state.setWaiting(d.Waiting)
		if d.Restart {
			r.log.Info("regiond restarts: its region has another declaration", slog.String("fields", strings.Join(d.Fields, ", ")))
			r.progress("the declaration has changed in " + strings.Join(d.Fields, ", ") + ": regiond restarts")
			close(changed)
			return
		}
	}
}

func (r *run) restart(ctx context.Context, stored *region.Region) restartDecision {
	return decideRestart(r.region, stored, r.config.RegionFile, r.config.LoadRegion, func(next *region.Region) error {
		return checkForRestart(ctx, next, r.config.CheckCredentials)
	})
}

// restartDecision says whether regiond restarts for a change of its region.
type restartDecision struct {
	// Fields that have changed and are read at a start.
	Fields []string
	// Restart now. Without it and with Fields, Waiting says what is in the way.
	Restart bool
	Waiting string
}

// decideRestart decides whether a regiond that was started with running restarts for what is stored.
// It does so only if the file that it would start with declares the same, since a start stores what
// its file declares, and if the host is fit for it, since regiond would not come up again.
func decideRestart(running, stored *region.Region, file string, load func() (*region.Region, error), preflight func(*region.Region) error) restartDecision {
	fields, err := region.ChangedAtStart(running, stored)
	if err != nil {
		return restartDecision{Waiting: "whether regiond has to restart for its declaration is unknown: " + err.Error()}
	}
	if len(fields) == 0 {
		return restartDecision{}
	}
	wait := func(format string, a ...any) restartDecision {
		return restartDecision{Fields: fields, Waiting: fmt.Sprintf("%s: changed since regiond was started, which needs a restart: %s",
			strings.Join(fields, ", "), oneLine(fmt.Sprintf(format, a...)))}
	}
	next, err := load()
	if err != nil {
		return wait("it can't start with %s: %v", file, err)
	}
	others, err := region.ChangedAtStart(next, stored)
	if err != nil {
		return wait("%v", err)
	}
	if len(others) > 0 {
		return wait("its file %s declares something else in %s; apply that file, or correct it", file, strings.Join(others, ", "))
	}
	if err := preflight(next); err != nil {
		return wait("this host is not fit for it: %v", err)
	}
	return restartDecision{Fields: fields, Restart: true}
}

// oneLine joins the lines of a text, which is a row of a table in status.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
