package check_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region/check"
)

// compileSchema compiles the published schema with a validator that shares nothing with regiond.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := check.Schema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const url = "region.schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(url, document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(url)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validateBySchema(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

func TestSchemaTakesValidRegions(t *testing.T) {
	schema := compileSchema(t)
	example, err := os.ReadFile("../../region.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(example), base, smallest, smallestDefaulted} {
		if err := validateBySchema(t, schema, text); err != nil {
			t.Errorf("a region that Load takes is refused: %v", err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	for _, c := range []struct {
		name    string
		changes []string
	}{
		{"unknown field at the top", []string{"spec:\n", "status: {}\nspec:\n"}},
		{"unknown field deep inside", []string{"        range: 10.20", "        rnge: 10.20.0.100-10.20.0.199\n        range: 10.20"}},
		{"unknown field in a list", []string{"        profile: compute", "        profile: compute\n        profil: compute"}},
		{"unknown field of metadata", []string{"  name: north-1", "  name: north-1\n  namespace: default"}},
		{"missing field", []string{"      cidr: 10.30.0.0/24\n", ""}},
		{"wrong type", []string{"dns: [10.20.0.1]", "dns: 10.20.0.1"}},
		{"unsupported choice", []string{"node: trixie", "node: trixi"}},
		{"wrong version", []string{"regiond.dev/v1alpha1", "regiond.dev/v1alpha2"}},
		{"port", []string{"address: 10.30.0.61", "address: 10.30.0.61\n          port: 65536"}},
		{"server name", []string{"name: r1-2", "name: R1_2"}},
		{"two matches", []string{"                pciAddress: 0000:3b:00.1\n", "                pciAddress: 0000:3b:00.1\n                boot: true\n"}},
		{"space in a kernel argument", []string{"- iommu=pt", "- iommu=pt quiet"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := validateBySchema(t, schema, edit(t, c.changes...)); err == nil {
				t.Error("is taken")
			}
		})
	}
}
