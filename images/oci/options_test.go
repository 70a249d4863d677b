package oci

import (
	"os"
	"testing"
)

// A build writes options in the form in which regiond embeds them, so that the files can be copied.
func TestOptionsAreWrittenAsEmbedded(t *testing.T) {
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
			t.Errorf("%s: got %d bytes, want the embedded %d", release, len(written), len(carried))
		}
		if kind := string(options["nova"]["pci"].Types["alias"]); kind == "" {
			t.Errorf("%s: nova's pci.alias has no type", release)
		}
	}
}
