package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// controllersGrace is how long controllers have to stop.
const controllersGrace = 30 * time.Second

// runControllers runs the controllers until ctx or the controllers end, or until regiond has to
// restart for a changed declaration, which is ErrRestart.
func (r *run) runControllers(ctx context.Context) error {
	if err := r.journal.Begin(stageControllers.name, ""); err != nil {
		return err
	}
	collected := metrics{read: r.state.read, dataDir: r.dataDir}
	if err := ctrlmetrics.Registry.Register(collected); err != nil {
		return err
	}
	defer ctrlmetrics.Registry.Unregister(collected)
	life, stop := context.WithCancel(ctx)
	defer stop()
	r.state.enter("starting the controllers", now())
	started := sync.OnceFunc(func() { r.started(life) })
	ended := make(chan error, 1)
	go func() {
		ended <- r.withRegistry(life, func(ctx context.Context) error { return r.config.Controllers(ctx, r.runtime(started)) })
	}()
	changed := make(chan struct{})
	go r.watchDeclaration(life, changed)
	running, restart := true, false
	var result error
	select {
	case <-ctx.Done():
	case <-changed:
		restart = true
	case err := <-ended:
		running = false
		switch {
		case err != nil:
			result = fmt.Errorf("controllers: %w", err)
		case ctx.Err() == nil:
			result = errors.New("controllers ended unexpectedly")
		}
	}
	r.state.setReady(false)
	r.state.enter("stopping the controllers", now())
	if r.config.Stopping != nil {
		r.config.Stopping()
	}
	r.stopping(ctx, "stopping the controllers")
	stop()
	if running {
		result = stopped(ended)
	}
	result = errors.Join(result, r.journal.End(stageControllers.name, result))
	if restart {
		result = errors.Join(ErrRestart, result)
	}
	return result
}

// stopped waits for the controllers to end after they were told to stop.
func stopped(ended <-chan error) error {
	late := time.NewTimer(controllersGrace)
	defer late.Stop()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("controllers: %w", err)
		}
		return nil
	case <-late.C:
		return fmt.Errorf("controllers did not stop within %s", controllersGrace)
	}
}

// started marks the region as up, unless it is already being stopped.
func (r *run) started(life context.Context) {
	if life.Err() != nil {
		return
	}
	r.state.enter("running", now())
	r.state.setReady(true)
	r.progress(fmt.Sprintf("region %s is up; `regiond status` shows it", r.region.Name))
	r.log.Info("region is up", slog.String("region", r.region.Name))
	if r.config.Ready != nil {
		r.config.Ready()
	}
}

func (r *run) runtime(started func()) Runtime {
	return Runtime{
		REST: r.cluster.REST(), Region: r.region, Host: r.node, DB: r.journal.DB(), DataDir: r.dataDir, CA: r.pki.Cluster,
		KubernetesURL: r.cluster.URL(), PinImages: r.pinImages, Started: started, ReportProblems: r.state.watchProblems, Log: r.log,
	}
}
