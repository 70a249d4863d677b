package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/hardware/netboot/dhcp"
	"regiond.dev/regiond/hardware/netboot/httpboot"
	"regiond.dev/regiond/hardware/netboot/tftp"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
)

// docs/ports.md is what operators open firewalls by: it has every port that a region listens on.
func TestPortsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/ports.md"))
	if err != nil {
		t.Fatal(err)
	}
	ports := []int{config.APIServerPort, config.RegistryPort, config.EtcdClientPort, config.EtcdPeerPort, config.KubeletPort,
		config.KubeletHealthPort, config.ProxyMetricsPort, config.ProxyHealthPort, config.ControllerManagerPort, config.SchedulerPort,
		dhcp.ServerPort, tftp.Port, httpboot.Port, enroll.Port, region.DefaultBMCPort}
	for _, s := range service.All {
		for _, w := range s.Workloads {
			if w.Port != 0 {
				ports = append(ports, w.Port)
			}
		}
	}
	for _, p := range ports {
		if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, p)).Match(page) {
			t.Errorf("docs/ports.md does not have port %d", p)
		}
	}
}
