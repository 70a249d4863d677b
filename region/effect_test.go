package region_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// TestEveryFieldHasAnEffect: a field that is added to region.yaml needs an entry, and an entry
// needs its field.
func TestEveryFieldHasAnEffect(t *testing.T) {
	data, err := check.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root field
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	root.walk("", func(path string, f field) {
		known[path] = true
		leaf := f.Items == nil && len(f.Properties) == 0
		if !leaf || path == "apiVersion" || path == "kind" {
			return
		}
		if got := region.Effects(path); len(got) != 1 {
			t.Errorf("field %s has the effects %v, want exactly one: add it to the table in region/effect.go", path, got)
		}
	})
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(region.EffectsTable(), -1)
	if len(rows) < 10 {
		t.Errorf("got %d entries, want at least 10", len(rows))
	}
	for _, row := range rows {
		if !known[row[1]] {
			t.Errorf("entry %s names no field of region.yaml", row[1])
		}
	}
}

// field of region.yaml in its JSON Schema.
type field struct {
	Properties map[string]field `json:"properties"`
	Items      *field           `json:"items"`
}

// walk visits the field at path and all fields below it.
func (f field) walk(path string, visit func(path string, f field)) {
	visit(path, f)
	for name, below := range f.Properties {
		below.walk(strings.TrimPrefix(path+"."+name, "."), visit)
	}
	if f.Items != nil {
		f.Items.walk(path+"[]", visit)
	}
}

func TestEffects(t *testing.T) {
	for path, want := range map[string][]region.Effect{
		"spec.networks.provisioning.dhcp.range":                    {region.AtStart},
		"spec.hardware.profiles[compute].rootDisk.overwrite":       {region.NextInstallation},
		"spec.hardware.profiles[0].match.name":                     {region.AtOnce},
		"spec.hardware.profiles[compute]":                          {region.AtOnce, region.NextInstallation},
		"spec.hardware":                                            {region.AtOnce, region.AtStart, region.NextInstallation},
		"spec.networks.management.cidr":                            {region.AtStart},
		"spec.networks.management.address":                         {region.Never},
		"spec.controlPlane.podCIDR":                                {region.Never},
		"spec.hardware.discovery[0].range":                         {region.AtOnce},
		`metadata.labels["example.com/a"]`:                         {region.AtOnce},
		"spec.openstack.clusters[lab].values.nova.conf.DEFAULT.x":  {region.AtOnce},
		"spec.hardware.profiles[compute].rootDiskOfAnotherVersion": nil,
		"status.conditions":                                        nil,
	} {
		if got := region.Effects(path); !slices.Equal(got, want) {
			t.Errorf("Effects(%q) = %v, want %v", path, got, want)
		}
	}
}

// TestGuideHasEffects: the operators' guide has the table as it is here.
func TestGuideHasEffects(t *testing.T) {
	guide, err := os.ReadFile("../docs/operators-guide.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := region.EffectsTable(); !strings.Contains(string(guide), table) {
		t.Errorf("docs/operators-guide.md lacks this table:\n%s", table)
	}
}

func TestChangedAtStart(t *testing.T) {
	first := func() *region.Region {
		r := &region.Region{}
		r.Name = "r"
		r.Spec.Networks.Provisioning.CIDR = "10.20.0.0/24"
		r.Spec.Networks.Management = &region.Network{CIDR: "10.10.0.0/24", Address: "10.10.0.2"}
		r.Spec.Images.Dir = "/var/lib/images"
		return r
	}
	for _, tc := range []struct {
		what   string
		change func(*region.Region)
		want   []string
	}{
		{"nothing", func(*region.Region) {}, nil},
		{"a network", func(r *region.Region) { r.Spec.Networks.Provisioning.DNS = []string{"10.20.0.1"} }, []string{"spec.networks"}},
		{"a network is gone", func(r *region.Region) { r.Spec.Networks = region.Networks{} }, []string{"spec.networks"}},
		{"what never changes", func(r *region.Region) { r.Spec.Networks.Management.Address = "10.10.0.3" }, nil},
		{"credentials and the folder of images", func(r *region.Region) {
			r.Spec.Hardware.Credentials, r.Spec.Images.Dir = []region.Credential{{Name: "a", File: "/a"}}, ""
		}, []string{"spec.hardware.credentials", "spec.images.dir"}},
		{"what takes effect at once", func(r *region.Region) { r.Spec.Hardware.Profiles = []region.Profile{{Name: "p"}} }, nil},
	} {
		next := first()
		tc.change(next)
		got, err := region.ChangedAtStart(first(), next)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", tc.what, got, err, tc.want)
		}
	}
}
