package check_test

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// FuzzLoad: nothing panics, every problem has a position and says something, and what is valid is
// still valid and the same after its defaults were filled in and it was written and read again.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile("../../region.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(example), base, "", "a", "- a", "a: [", "a: &a [*a]", "? a", "---\n---\n", "\xff", "\ufeffkind: Region", "kind: Region\nspec: {networks: &n {provisioning: *n}}",
		"apiVersion: regiond.dev/v1alpha1\nkind: Region\nmetadata: {name: a, labels: {a.b/c: 1}}\nspec: {hardware: {servers: [~, {}], profiles: [{match: {minMemory: 1Ei}}]}}",
		"kind: Region\nspec: {networks: {provisioning: {cidr: 0.0.0.0/0, address: 0.0.0.0, dhcp: {range: 255.255.255.255-255.255.255.255, leaseTime: 9999999h}}}}",
		"kind: Region\nspec: {networks: {provisioning: {cidr: 10.0.0.0/30, dhcp: {range: 10.0.0.0/31}}}, hardware: {discovery: [{range: '-'}, {range: '1-'}, {range: '::-::'}]}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := check.Load(data, "region.yaml")
		if err != nil {
			checkProblems(t, err)
			return
		}
		region.Default(doc.Region)
		text, err := region.ViewYAML(doc.Region)
		if err != nil {
			t.Fatal(err)
		}
		again, err := check.Load(text, "view.yaml")
		if err != nil {
			t.Fatalf("valid, but not after it was written:\n%s\n%v", text, err)
		}
		if diff := cmp.Diff(doc.Region, again.Region); diff != "" {
			t.Fatalf("another region after it was written (-before +after):\n%s", diff)
		}
	})
}

func checkProblems(t *testing.T, err error) {
	t.Helper()
	var problems check.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("error is %T, want Problems with something in them: %v", err, err)
	}
	for _, p := range problems {
		if p.File != "region.yaml" || p.Line < 1 || p.Column < 1 || p.Message == "" {
			t.Errorf("problem without position or message: %+v", p)
		}
	}
}
