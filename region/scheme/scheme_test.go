package scheme_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

func TestNew(t *testing.T) {
	s := scheme.New()
	for _, kind := range []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret"), region.GroupVersion.WithKind("Region")} {
		if !s.Recognizes(kind) {
			t.Errorf("%s is not known", kind)
		}
	}
}
