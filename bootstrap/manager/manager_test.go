package manager

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

func TestMerge(t *testing.T) {
	only := func(ns string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{ns: {}}}
	}
	all, err := merge(scheme.New(), []Cached{{&corev1.Secret{}: only("a")}, {&corev1.Pod{}: only("b"), &region.Host{}: {}}})
	if err != nil || len(all) != 3 {
		t.Errorf("got %d kinds and error %v, want 3 and none", len(all), err)
	}
	for o, which := range all {
		if _, secret := o.(*corev1.Secret); secret && which.Namespaces["a"].LabelSelector != nil {
			t.Errorf("Secret: got %+v, want the rooms' selection", which)
		}
	}
	_, err = merge(scheme.New(), []Cached{{&corev1.Secret{}: only("a")}, {client.Object(&corev1.Secret{}): only("b")}})
	if err == nil || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("two rooms that name Secret: got %v, want an error that names the kind", err)
	}
}
