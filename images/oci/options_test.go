package oci

import (
	"os"
	"testing"
)

// What a build writes is what regiond carries: the files are copied from one to the other.
func TestOptionsAreWrittenAsTheyAreCarried(t *testing.T) {
	for _, release := range []string{"epoxy", "gazpacho"} {
		carried, err := os.ReadFile("../../components/configgen/options/" + release + ".json")
		if err != nil {
			t.Fatal(err)
		}
		options, err := ParseOptions(carried)
		if err != nil {
			t.Fatal(err)
		}
		written, err := options.encode()
		if err != nil {
			t.Fatal(err)
		}
		if string(written) != string(carried) {
			t.Errorf("%s: %d bytes, carried are %d", release, len(written), len(carried))
		}
		if kind := string(options["nova"]["pci"].Types["alias"]); kind == "" {
			t.Errorf("%s: the options have no types", release)
		}
	}
}
