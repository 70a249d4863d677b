package region_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
)

func TestCRDs(t *testing.T) {
	crds, err := region.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, text := range crds {
		var crd struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Group    string
				Versions []struct{ Name string }
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		names[crd.Metadata.Name] = true
		if crd.Kind != "CustomResourceDefinition" || crd.Spec.Group != region.GroupVersion.Group ||
			len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != region.GroupVersion.Version {
			t.Errorf("not a CRD of %s: %+v", region.GroupVersion, crd)
		}
	}
	for _, want := range []string{"regions.regiond.dev", "servers.regiond.dev", "hosts.regiond.dev"} {
		if !names[want] {
			t.Errorf("no CRD %s among %v", want, names)
		}
	}
}
