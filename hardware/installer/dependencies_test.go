package installer_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The initramfs is loaded by firmware over the network: Kubernetes stays out of it.
func TestNoKubernetes(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "regiond.dev/regiond/cmd/regiond-init").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		if strings.Contains(pkg, "k8s.io/") || strings.HasPrefix(pkg, "regiond.dev/regiond/region\n") {
			t.Errorf("regiond-init imports %s", strings.TrimSpace(pkg))
		}
	}
}
