package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/region/span"
)

// fieldOwner of what region.yaml says of a server (server-side apply). Other fields, such as
// spec.reinstallAfter, are the operator's.
const fieldOwner = client.FieldOwner("regiond-region")

// Static applies the servers that are listed in region.yaml.
type Static struct {
	Client     client.Client
	RegionName string
	Log        *slog.Logger
}

// Reconcile applies them all; one that is refused does not keep the others.
func (s *Static) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reg := &region.Region{}
	if err := s.Client.Get(ctx, req.NamespacedName, reg); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var errs []error
	for _, st := range reg.Spec.Hardware.Servers {
		if err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(declaration(st)), fieldOwner, client.ForceOwnership); err != nil {
			errs = append(errs, fmt.Errorf("server %s of region.yaml: %w", st.Name, err))
			continue
		}
		s.Log.Debug("server declared", slog.String("server", st.Name))
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// SetupWithManager registers it for changes of the region's spec.
func (s *Static) SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("static-servers").
		For(&region.Region{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}, named(s.RegionName))).
		Complete(leadership.Reconciler(span.Reconciler("static-servers", s)))
}

func named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name })
}

// declaration holds exactly the fields that region.yaml owns.
func declaration(st region.StaticServer) *unstructured.Unstructured {
	bmc := st.BMC
	region.DefaultBMC(&bmc)
	spec := map[string]any{"bmc": map[string]any{
		"address": bmc.Address, "port": int64(bmc.Port), "protocol": string(bmc.Protocol), "credentials": bmc.Credentials,
	}}
	if st.Profile != "" {
		spec["profile"] = st.Profile
	}
	if len(st.MACAddresses) > 0 {
		var macs []any
		for _, m := range st.MACAddresses {
			macs = append(macs, m)
		}
		spec["macAddresses"] = macs
	}
	if st.Power != "" {
		spec["power"] = string(st.Power)
	}
	if st.TakeoverUntil != nil {
		spec["takeoverUntil"] = st.TakeoverUntil.UTC().Format(time.RFC3339)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": region.GroupVersion.String(), "kind": "Server",
		"metadata": map[string]any{"name": st.Name, "labels": map[string]any{server.SourceLabel: server.SourceRegion}},
		"spec":     spec,
	}}
}
