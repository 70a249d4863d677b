package check

import (
	"regexp"
	"slices"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/nethelpers"

	"regiond.dev/regiond/region"
)

// walkSchema calls visit for every field of region.yaml.
func walkSchema(s *schemaNode, path string, visit func(path string, s *schemaNode)) {
	visit(path, s)
	for _, name := range s.fields() {
		walkSchema(s.Properties[name], join(path, name), visit)
	}
	if s.Items != nil {
		walkSchema(s.Items, path+"[]", visit)
	}
}

// TestSchemaIsWhole: editors can explain every field, Load can apply every pattern, and there is
// no type that the walker does not know.
func TestSchemaIsWhole(t *testing.T) {
	root, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	types := []string{"object", "array", "string", "integer", "boolean"}
	walkSchema(root, "", func(path string, s *schemaNode) {
		isItem := len(path) > 2 && path[len(path)-2:] == "[]"
		if s.Description == "" && !isItem {
			t.Errorf("%s has no description", path)
		}
		if !slices.Contains(types, s.Type) {
			t.Errorf("%s has type %q, want one of %v", path, s.Type, types)
		}
		if _, err := regexp.Compile(s.Pattern); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
}

// TestSchemaMatchesLibrary: the words of the bonding driver that the markers list are those of the
// library that the rules and the node agent use.
func TestSchemaMatchesLibrary(t *testing.T) {
	root, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	var modes, policies, rates []string
	for m := nethelpers.BondModeRoundrobin; m <= nethelpers.BondModeALB; m++ {
		modes = append(modes, m.String())
	}
	for p := nethelpers.BondXmitPolicyLayer2; p <= nethelpers.BondXmitPolicyEncap34; p++ {
		policies = append(policies, p.String())
	}
	for r := nethelpers.LACPRateSlow; r <= nethelpers.LACPRateFast; r++ {
		rates = append(rates, r.String())
	}
	const bonds = "spec.hardware.profiles[].network.bonds[]"
	found := 0
	walkSchema(root, "", func(path string, s *schemaNode) {
		for field, want := range map[string][]string{bonds + ".mode": modes, bonds + ".xmitHashPolicy": policies, bonds + ".lacpRate": rates} {
			if path != field {
				continue
			}
			found++
			got := slices.Sorted(slices.Values(s.Enum))
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s is one of %v in the schema, %v in nethelpers", path, got, want)
			}
		}
	})
	if found != 3 {
		t.Errorf("%d of 3 fields found", found)
	}
}

// TestDefaultsAreInDescriptions: what the descriptions promise is what Default does.
func TestDefaultsAreInDescriptions(t *testing.T) {
	root, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		podCIDRPath: region.DefaultPodCIDR, serviceCIDRPath: region.DefaultServiceCIDR, "spec.controlPlane.dataDir": region.DefaultDataDir,
		"spec.images.dir": region.DefaultImagesDir, "spec.images.node": region.DefaultNodeImage, leaseTimePath: "1h",
		"spec.hardware.discovery[].port": "623", "spec.hardware.servers[].bmc.port": "623",
	}
	walkSchema(root, "", func(path string, s *schemaNode) {
		if value, found := want[path]; found {
			delete(want, path)
			if !regexp.MustCompile(`Default "?` + regexp.QuoteMeta(value) + `\b`).MatchString(s.Description) {
				t.Errorf("%s: %q does not name the default %s", path, s.Description, value)
			}
		}
	})
	if len(want) > 0 {
		t.Errorf("no such fields: %v", want)
	}
}

func TestClosest(t *testing.T) {
	fields := []string{"range", "leaseTime", "bmc", "management", "provisioning", "dns", "ntp", "dhcp", "cidr", "address"}
	for word, want := range map[string]string{
		"rnge": "range", "Range": "range", "lease": "leaseTime", "leasetime": "leaseTime", "bcm": "bmc", "managment": "management",
		"provisoning": "provisioning", "CIDR": "cidr", "adress": "address",
		"vlan": "", "cpu": "", "x": "", "": "", "dns": "", "hostname": "",
	} {
		if got := closest(word, fields); got != want {
			t.Errorf("closest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestBetterGuesses(t *testing.T) {
	for _, c := range []struct {
		name  string
		guess func(string) string
		in    string
		want  string
	}{
		{"range", betterRange, "10.0.0.10-50", "10.0.0.10-10.0.0.50"},
		{"range", betterRange, "10.0.0.10 - 10.0.0.50", "10.0.0.10-10.0.0.50"},
		{"range", betterRange, "10.0.0.50-10.0.0.10", "10.0.0.10-10.0.0.50"},
		{"range", betterRange, "10.0.0.10", "10.0.0.10-10.0.0.10"},
		{"range", betterRange, "10.0.0.8/29", "10.0.0.9-10.0.0.14"},
		{"range", betterRange, "10.0.0.8/31", ""},
		{"range", betterRange, "-", ""},
		{"range", betterRange, "a-b", ""},
		{"CIDR", betterCIDR, "10.0.0.0/255.255.0.0", "10.0.0.0/16"},
		{"CIDR", betterCIDR, "10.0.0.0/255.0.255.0", ""},
		{"CIDR", betterCIDR, "10.0.0.0 / 24", "10.0.0.0/24"},
		{"address", betterAddress, "010.0.0.01", "10.0.0.1"},
		{"address", betterAddress, "10.0.0.1:80", "10.0.0.1"},
		{"address", betterAddress, "10.0.0", ""},
		{"WWN", betterWWN, "0x5002538E40A1B2C3", "naa.5002538e40a1b2c3"},
		{"WWN", betterWWN, "50:02:53:8e:40:a1:b2:c3", "naa.5002538e40a1b2c3"},
		{"WWN", betterWWN, "0025388b710114b1", "eui.0025388b710114b1"},
		{"WWN", betterWWN, "/dev/sda", ""},
		{"quantity", betterQuantity, "64 gib", "64Gi"},
		{"quantity", betterQuantity, "1.5tb", "1.5T"},
		{"quantity", betterQuantity, "10K", "10k"},
		{"quantity", betterQuantity, "many", ""},
		{"PCI", betterPCI, "3B:00.0", "0000:3b:00.0"},
		{"PCI", betterPCI, "eth0", ""},
	} {
		if got := c.guess(c.in); got != c.want {
			t.Errorf("%s %q: guess %q, want %q", c.name, c.in, got, c.want)
		}
	}
}
