package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

func fakeAPI(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, region.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

func storedTemplates(t *testing.T, c client.Client) []string {
	t.Helper()
	var list corev1.ConfigMapList
	if err := c.List(t.Context(), &list, client.InNamespace(region.NamespaceSystem)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	return names
}

// An apply by another process stores templates before it pins a cluster to them.
func TestTemplatesThatWereJustStoredAreKept(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	stored := func(name string, age time.Duration) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: name,
			Labels: map[string]string{plan.LabelTemplates: "1"}, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	}
	c := fakeAPI(t, stored("old", 2*time.Hour), stored("new", time.Minute)).Build()
	templates, err := plan.NewTemplates(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, then := range []struct {
		now  time.Time
		left int
	}{{now, 1}, {now.Add(time.Hour), 0}} {
		if err := templates.Prune(t.Context(), then.now); err != nil {
			t.Fatal(err)
		}
		if got := storedTemplates(t, c); len(got) != then.left || len(got) == 1 && got[0] != "new" {
			t.Errorf("at %s: got %q left", then.now, got)
		}
	}
}

// Templates that a process knows are stored again if they were deleted, whether its own or an
// earlier regiond's.
func TestDeletedTemplatesAreStoredAgain(t *testing.T) {
	c := fakeAPI(t).Build()
	earlier, err := plan.NewTemplates(c)
	if err != nil {
		t.Fatal(err)
	}
	own := earlier.Own.Digest()
	if _, err := earlier.Get(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	for name, templates := range map[string]*plan.Templates{"own": earlier, "an earlier regiond's": {API: c, Own: earlier.Earlier[0]}} {
		if _, err := templates.Get(t.Context(), own); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(region.NamespaceSystem)); err != nil {
			t.Fatal(err)
		}
		if _, err := templates.Get(t.Context(), own); err != nil || len(storedTemplates(t, c)) != 1 {
			t.Errorf("%s: stored %q, %v", name, storedTemplates(t, c), err)
		}
	}
}
