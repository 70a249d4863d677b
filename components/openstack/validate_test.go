package openstack_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/components/openstack"
)

// Problems of the file, of its declaration and of the files that it names come in one list; away
// from the seed host the last are not looked for.
func TestValidate(t *testing.T) {
	file := strings.Replace(checkedRegion, "rootDisk:", "rootDsik:", 1) + "        values: {nova: {cpu_allocation_ratoi: 4}}\n"
	for _, offline := range []bool{false, true} {
		problems, err := openstack.Validate([]byte(file), "region.yaml", offline)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := problems.WriteText(&got); err != nil {
			t.Fatal(err)
		}
		for part, want := range map[string]bool{"rootDsik": true, "cpu_allocation_ratoi": true, "/etc/regiond/credentials/c.yaml": !offline} {
			if strings.Contains(got.String(), part) != want {
				t.Errorf("offline %t: got\n%swant %s in it: %t", offline, got.String(), part, want)
			}
		}
	}
}
