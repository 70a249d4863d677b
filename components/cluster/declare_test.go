package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/region"
)

// A missing folder of patches, or a refused call, keeps one cluster from being created, and no other.
func TestDeclareEachCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := region.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused by the test")
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	r.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "runs", PatchesDir: "/missing"}, {Name: "refused"},
		{Name: "without", PatchesDir: "/missing"}, {Name: "fine", PatchesDir: t.TempDir()}}
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(r, &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "runs"}}).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "refused" {
				return refused
			}
			return c.Get(ctx, key, o, opts...)
		}}).Build()
	err := cluster.Declare(t.Context(), api, "r1")
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "OpenStack cluster without is not created") || strings.Contains(err.Error(), "cluster runs") {
		t.Errorf("got %v", err)
	}
	var list region.OpenStackClusterList
	if err := api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	if strings.Join(names, " ") != "fine runs" {
		t.Errorf("clusters %v, want fine and runs", names)
	}
	// An apply removes one while the others are tried again.
	stored := &region.Region{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "r1"}, stored); err != nil {
		t.Fatal(err)
	}
	stored.Spec.OpenStack.Clusters = stored.Spec.OpenStack.Clusters[:3]
	fine := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "fine"}}
	if err := errors.Join(api.Update(t.Context(), stored), api.Delete(t.Context(), fine)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Declare(t.Context(), api, "r1"); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "fine"}, fine); !apierrors.IsNotFound(err) {
		t.Errorf("the cluster that was removed is back: %v", err)
	}
}
