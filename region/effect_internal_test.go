package region

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEveryFieldHasAnEffect: a field that is added to region.yaml needs an entry, and an entry needs its field.
func TestEveryFieldHasAnEffect(t *testing.T) {
	root, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	walkSchema(root, "", func(path string, s *schemaNode) {
		known[path] = true
		leaf := s.Items == nil && len(s.Properties) == 0
		if !leaf || path == "apiVersion" || path == "kind" {
			return
		}
		if got := Effects(path); len(got) != 1 {
			t.Errorf("field %s has the effects %v, want exactly one: add it to the table in region/effect.go", path, got)
		}
	})
	for _, e := range effects {
		if !known[e.path] {
			t.Errorf("entry %s names no field of region.yaml", e.path)
		}
	}
}

func TestEffects(t *testing.T) {
	for path, want := range map[string][]Effect{
		"spec.networks.provisioning.dhcp.range":                    {AtStart},
		"spec.hardware.profiles[compute].rootDisk.overwrite":       {NextInstallation},
		"spec.hardware.profiles[0].match.name":                     {AtOnce},
		"spec.hardware.profiles[compute]":                          {AtOnce, NextInstallation},
		"spec.hardware":                                            {AtOnce, AtStart, NextInstallation},
		"spec.hardware.discovery[0].range":                         {AtOnce},
		`metadata.labels["example.com/a"]`:                         {AtOnce},
		"spec.openstack.clusters[lab].values.nova.conf.DEFAULT.x":  {AtOnce},
		"spec.hardware.profiles[compute].rootDiskOfAnotherVersion": nil,
		"status.conditions":                                        nil,
	} {
		if got := Effects(path); !slices.Equal(got, want) {
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
	if table := EffectsTable(); !strings.Contains(string(guide), table) {
		t.Errorf("docs/operators-guide.md lacks this table:\n%s", table)
	}
}
