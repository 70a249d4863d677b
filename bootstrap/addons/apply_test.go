package addons_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/bootstrap/addons"
)

func TestApplyRepairsDrift(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	ctx := t.Context()
	all, err := addons.Objects(values())
	if err != nil {
		t.Fatal(err)
	}
	if err := addons.Apply(ctx, c, all...); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "kube-system", Name: "coredns"}
	var cm corev1.ConfigMap
	if err := c.Get(ctx, key, &cm); err != nil {
		t.Fatal(err)
	}
	was := cm.Data["Corefile"]
	cm.Data["Corefile"] = "broken"
	if err := c.Update(ctx, &cm); err != nil {
		t.Fatal(err)
	}
	if err := addons.Apply(ctx, c, all...); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, key, &cm); err != nil {
		t.Fatal(err)
	}
	if cm.Data["Corefile"] != was {
		t.Errorf("got the Corefile %q, want it repaired", cm.Data["Corefile"])
	}
}

// definitionsClient acts like an API server that establishes definitions by the third request.
func definitionsClient(t *testing.T, established bool) client.Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	mapper.Add(crd, meta.RESTScopeRoot)
	for _, kind := range []string{"Region", "Server", "Host", "OpenStackCluster"} {
		mapper.Add(schema.GroupVersionKind{Group: "regiond.dev", Version: "v1alpha1", Kind: kind}, meta.RESTScopeRoot)
	}
	looks := 0
	return fake.NewClientBuilder().WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			looks++
			status := "False"
			if established && looks > 2 {
				status = "True"
			}
			o.(*unstructured.Unstructured).Object["status"] = map[string]any{"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True", "message": "no conflicts"},
				map[string]any{"type": "Established", "status": status, "message": "not yet"},
			}}
			return nil
		},
	}).Build()
}

func TestDefinitionsAreAwaited(t *testing.T) {
	if err := addons.ApplyDefinitions(t.Context(), definitionsClient(t, true)); err != nil {
		t.Fatal(err)
	}
}

func TestDefinitionThatIsNotServedSaysWhy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := addons.ApplyDefinitions(ctx, definitionsClient(t, false))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "hosts.regiond.dev") || !strings.Contains(err.Error(), "Established is False: not yet") {
		t.Fatalf("got %v, want a timeout that names the definition and its condition", err)
	}
}
