package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

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
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "runs"}}).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "refused" {
				return refused
			}
			return c.Get(ctx, key, o, opts...)
		}}).Build()
	r := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	r.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "runs", PatchesDir: "/missing"}, {Name: "refused"},
		{Name: "without", PatchesDir: "/missing"}, {Name: "fine", PatchesDir: t.TempDir()}}
	err := cluster.Declare(t.Context(), api, r)
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
}
