package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/hardware/netboot/dhcp"
	"regiond.dev/regiond/hardware/netboot/httpboot"
	"regiond.dev/regiond/hardware/netboot/tftp"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
)

var servicePort = regexp.MustCompile(`port: (\d+)`)

// docs/ports.md is what operators open firewalls by: it has every port that a region listens on.
func TestPortsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/ports.md"))
	if err != nil {
		t.Fatal(err)
	}
	services, err := os.ReadFile(filepath.Join(root, "components/kustomize/base/services.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ports := []int{config.APIServerPort, config.RegistryPort, config.EtcdClientPort, config.EtcdPeerPort, config.KubeletPort,
		config.KubeletHealthPort, config.ProxyMetricsPort, config.ProxyHealthPort, config.ControllerManagerPort, config.SchedulerPort,
		dhcp.ServerPort, tftp.Port, httpboot.Port, enroll.Port, region.DefaultBMCPort}
	for _, m := range servicePort.FindAllStringSubmatch(string(services), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, n)
	}
	if len(ports) < 24 {
		t.Fatalf("got %d ports, want at least 24; were the Services moved?", len(ports))
	}
	for _, p := range ports {
		if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, p)).Match(page) {
			t.Errorf("docs/ports.md does not have port %d", p)
		}
	}
}
