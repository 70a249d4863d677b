package hardware

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/region"
)

func TestResolveNetwork(t *testing.T) {
	good := region.ProvisioningNetwork{
		Network: region.Network{CIDR: "10.20.0.0/24", Address: "10.20.0.2", Gateway: "10.20.0.1"},
		DHCP:    region.DHCP{Range: "10.20.0.100-10.20.0.199", LeaseTime: &metav1.Duration{Duration: 2 * time.Minute}}, DNS: []string{"10.20.0.3"}, NTP: []string{"10.20.0.4"}}
	find := func(a netip.Addr) (string, error) { return "eth-" + a.String(), nil }
	n, err := resolveNetwork(good, find)
	if err != nil || n.Interface != "eth-10.20.0.2" || n.Address.String() != "10.20.0.2" || n.Gateway.String() != "10.20.0.1" || n.RangeLast.String() != "10.20.0.199" ||
		n.LeaseTime != 2*time.Minute || len(n.DNS) != 1 || len(n.NTP) != 1 {
		t.Errorf("%+v %v", n, err)
	}
	for field, change := range map[string]func(*region.ProvisioningNetwork){
		"cidr":       func(p *region.ProvisioningNetwork) { p.CIDR = "x" },
		"address":    func(p *region.ProvisioningNetwork) { p.Address = "" },
		"gateway":    func(p *region.ProvisioningNetwork) { p.Gateway = "x" },
		"dhcp.range": func(p *region.ProvisioningNetwork) { p.DHCP.Range = "10.20.0.100" },
		"dns[0]":     func(p *region.ProvisioningNetwork) { p.DNS = []string{"x"} },
		"ntp[0]":     func(p *region.ProvisioningNetwork) { p.NTP = []string{"x"} },
	} {
		bad := good
		change(&bad)
		if _, err := resolveNetwork(bad, find); err == nil || !strings.Contains(err.Error(), "spec.networks.provisioning."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := interfaceOf(netip.MustParseAddr("192.0.2.77")); err == nil || !strings.Contains(err.Error(), "192.0.2.77") {
		t.Errorf("%v", err)
	}
	if name, err := interfaceOf(netip.MustParseAddr("127.0.0.1")); err != nil || name != "lo" {
		t.Errorf("%q %v", name, err)
	}
}

func TestImages(t *testing.T) {
	dir := t.TempDir()
	d := imageDir(dir)
	read := d.installable("http://10.20.0.2")
	if _, _, err := read(); !errors.Is(err, enrollment.ErrNoImage) {
		t.Errorf("no image: %v", err)
	}
	if _, err := d.path("vmlinuz")(); !errors.Is(err, enrollment.ErrNoImage) {
		t.Errorf("no image: %v", err)
	}
	write := func(folder, version string) {
		t.Helper()
		b, err := json.Marshal(diskimage.Manifest{Version: version})
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, "node", folder)
		if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, diskimage.ManifestFile), b, 0o644)); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "node", "current")
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(folder, link); err != nil {
			t.Fatal(err)
		}
	}
	write("trixie-1", "trixie-1")
	if m, url, err := read(); err != nil || m.Version != "trixie-1" || url != "http://10.20.0.2/images/trixie-1" {
		t.Errorf("%+v %q %v", m, url, err)
	}
	if p, err := d.path("vmlinuz")(); err != nil || filepath.Base(filepath.Dir(p)) != "trixie-1" {
		t.Errorf("%q %v", p, err)
	}
	write("trixie-2", "trixie-1")
	if _, _, err := read(); err == nil {
		t.Error("an image whose manifest is another's was taken")
	}
}
