package server

import (
	"context"
	"log/slog"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/span"
)

// workers reconcile side by side: most of their time is spent waiting for BMCs.
const workers = 32

// SetupWithManager registers the controller, its watches and its index.
func (c *Controller) SetupWithManager(ctx context.Context, m ctrl.Manager, registry registerer) error {
	if err := c.Init(registry); err != nil {
		return err
	}
	index := func(o client.Object) []string { return IdentityKeys(o.(*region.Server)) }
	if err := m.GetFieldIndexer().IndexField(ctx, &region.Server{}, IdentityIndex, index); err != nil {
		return err
	}
	sameName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	})
	inNamespace := func(ns string) predicate.Predicate {
		return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == ns })
	}
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return c.requests(ctx, func(*region.Server) bool { return true })
	})
	secrets := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		if name, ok := hostkey.HostOf(o.GetName()); ok {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
		}
		return c.requests(ctx, func(s *region.Server) bool { return CredentialsSecret(s.Spec.BMC.Credentials) == o.GetName() })
	})
	// A server that appears, changes or goes may make or end a duplicate of another.
	same := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		names, err := duplicates(ctx, c.Client, o.(*region.Server))
		if err != nil {
			return nil // the periodic reconciliation finds it too
		}
		var r []reconcile.Request
		for _, n := range names {
			r = append(r, reconcile.Request{NamespacedName: types.NamespacedName{Name: n}})
		}
		return r
	})
	return ctrl.NewControllerManagedBy(m).
		For(&region.Server{}).
		Watches(&region.Server{}, same).
		Watches(&region.Host{}, sameName, builder.WithPredicates(c.told())).
		Watches(&region.Region{}, all).
		Watches(&coordinationv1.Lease{}, sameName, builder.WithPredicates(inNamespace(host.Namespace), revived())).
		Watches(&corev1.Secret{}, secrets, builder.WithPredicates(inNamespace(Namespace), predicate.ResourceVersionChangedPredicate{})).
		Named("server").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(leadership.Reconciler(span.Reconciler("server", c)))
}

func (c *Controller) requests(ctx context.Context, take func(*region.Server) bool) []reconcile.Request {
	var list region.ServerList
	if err := c.Client.List(ctx, &list); err != nil {
		c.Log.Error("list servers", slog.Any("error", err))
		return nil
	}
	var r []reconcile.Request
	for i := range list.Items {
		if take(&list.Items[i]) {
			r = append(r, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return r
}

// revived lets pass a heartbeat that comes after a silence. That one fails to come is found by the
// deadline that the reconciliation sets; those in between say nothing new.
func revived() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*coordinationv1.Lease), e.ObjectNew.(*coordinationv1.Lease)
		if after.Spec.RenewTime == nil {
			return false
		}
		return before.Spec.RenewTime == nil || after.Spec.RenewTime.Sub(before.Spec.RenewTime.Time) >= host.LeaseDuration
	}}
}
