package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/addons"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

// Waiting for the API.
const (
	// apiTimeout is generous, for a seed host under load or an etcd that replays a long log. When it
	// expires, regiond exits and is restarted. On an emulated machine with two CPUs the API took 230
	// s.
	apiTimeout = 10 * time.Minute
	// nodeTimeout bounds the wait for the node, which imports images at the first start.
	nodeTimeout = 5 * time.Minute
	// applyTimeout bounds retries of requests that the API refuses while its start-up hooks are
	// running. On an emulated machine with two CPUs the resource definitions alone took 56 s.
	applyTimeout = 5 * time.Minute
	poll         = 100 * time.Millisecond
)

// onCluster runs the stages that need the API, and then the controllers until ctx or the cluster
// ends.
func (r *run) onCluster(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-r.cluster.Done():
			cancel(errors.Join(errors.New("the control plane ended"), r.cluster.Err()))
		}
	}()
	err := r.stages(ctx)
	if err == nil {
		err = r.runControllers(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil {
		return nil // told to stop
	}
	return err
}

func (r *run) stages(ctx context.Context) error {
	if err := r.stage(ctx, stageAPI.of(r.cluster.URL()), r.waitAPI); err != nil {
		return err
	}
	if err := r.stage(ctx, stageDefinitions, r.retry(func(ctx context.Context) error {
		return addons.ApplyDefinitions(ctx, r.client)
	})); err != nil {
		return err
	}
	if err := r.stage(ctx, stageAddons, r.retry(r.applyAddons)); err != nil {
		return err
	}
	if err := r.stage(ctx, stageRegion.of(r.region.Name), r.retry(r.applyRegion)); err != nil {
		return err
	}
	return r.stage(ctx, stageNode.of(r.node), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
		defer cancel()
		return r.cluster.Wait(ctx)
	})
}

func (r *run) waitAPI(ctx context.Context) error {
	d, err := discovery.NewDiscoveryClientForConfig(r.cluster.REST())
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, poll, apiTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = d.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	r.client, err = client.New(r.cluster.REST(), client.Options{Scheme: scheme.New()})
	return err
}

// retry repeats an effect that the API may refuse shortly after its start: hooks that run after
// readiness create its own namespaces and roles.
func (r *run) retry(effect func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, applyTimeout, true, func(ctx context.Context) (bool, error) {
			if last = effect(ctx); last != nil {
				r.log.Debug("not applied yet", slog.Any("error", last))
			}
			return last == nil, nil
		})
		if err != nil {
			return errors.Join(last, err)
		}
		return nil
	}
}

func (r *run) applyAddons(ctx context.Context) error {
	values, err := r.addonValues()
	if err != nil {
		return err
	}
	objects, err := addons.Objects(values)
	if err != nil {
		return err
	}
	return addons.Apply(ctx, r.client, objects...)
}

// applyRegion stores the declaration.
func (r *run) applyRegion(ctx context.Context) error {
	desired, err := r.region.Desired()
	if err != nil {
		return err
	}
	if err := addons.Apply(ctx, r.client, desired); err != nil {
		return err
	}
	stored := &region.Region{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: r.region.Name}, stored); err != nil {
		return err
	}
	stored.SetGroupVersionKind(region.GroupVersion.WithKind("Region"))
	r.region = stored
	return nil
}
