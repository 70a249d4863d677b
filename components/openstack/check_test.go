package openstack_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

const checkedRegion = `apiVersion: regiond.dev/v1alpha1
kind: Region
metadata:
  name: cases
spec:
  networks:
    provisioning:
      cidr: 10.77.0.0/24
      address: 10.77.0.1
      dhcp:
        range: 10.77.0.100-10.77.0.199
  hardware:
    credentials:
      - {name: c, file: /etc/regiond/credentials/c.yaml}
    servers:
      - {name: node1, bmc: {address: 10.78.0.11, credentials: c}}
      - {name: node2, bmc: {address: 10.78.0.12, credentials: c}}
    profiles:
      - name: all
        rootDisk: {minSize: 4G}
  openstack:
    clusters:
      - name: general
`

// messages returns the messages for the file with these lines appended. patches, if not empty, is
// the content of the patches folder.
func messages(t *testing.T, lines, patches string) []string {
	t.Helper()
	doc, err := check.Load([]byte(checkedRegion+lines), "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := func(string) ([]region.Patch, error) { return nil, fs.ErrNotExist }
	if patches != "" {
		read = func(dir string) ([]region.Patch, error) {
			return []region.Patch{{File: dir + "/a.yaml", Content: patches}}, nil
		}
	}
	problems, err := openstack.Check(doc, read)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range problems.Merge(nil) {
		said = append(said, p.String())
	}
	return said
}

// Each mistake below an OpenStack cluster is reported once, at its line and column.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		lines, patches string
		want           []string
	}{
		"right": {"        values: {nova: {virt_type: qemu}}\n", "", nil},
		"values": {`        values:
          nova:
            virt_tpye: qemu
            conf:
              DEFAULT:
                cpu_alocation_ratio: 3
                host: me
`, "", []string{
			`region.yaml:26:24: spec.openstack.clusters[0].values.nova.virt_tpye: no template uses nova.virt_tpye; did you mean nova.virt_type?`,
			`region.yaml:29:38: spec.openstack.clusters[0].values.nova.conf.DEFAULT.cpu_alocation_ratio: [DEFAULT] cpu_alocation_ratio: nova of epoxy has no such option; did you mean cpu_allocation_ratio?`,
			`region.yaml:30:23: spec.openstack.clusters[0].values.nova.conf.DEFAULT.host: [DEFAULT] host: regiond sets this option itself: it identifies this node; remove it`,
		}},
		"another release's option": {"        values: {nova: {live_migration: {parallel_connections: 2}}}\n", "", []string{
			`region.yaml:24:64: spec.openstack.clusters[0].values.nova.live_migration.parallel_connections: [libvirt] live_migration_parallel_connections: nova of epoxy has no such option; it exists in gazpacho`}},
		"a node's": {`        nodes:
          - name: node2
            values: {nova: {report_interval: -1}}
          - name: node9
          - name: elsewhere
`, "", []string{
			`region.yaml:26:46: spec.openstack.clusters[0].nodes[0].values.nova.report_interval: is -1, must be an integer of at least 1 (seconds between reports of a service)`,
			`region.yaml:27:19: spec.openstack.clusters[0].nodes[1].name: "node9" is not the name of any server in spec.hardware.servers; did you mean "node1"?`,
			`region.yaml:28:19: warning: spec.openstack.clusters[0].nodes[2].name: "elsewhere" is not the name of any server in spec.hardware.servers; these values have no effect until a discovered or enrolled host has this name`,
		}},
		"another Debian": {"        release: gazpacho\n", "", []string{
			`region.yaml:24:18: warning: spec.openstack.clusters[0].release: "gazpacho" is packaged in Debian forky, and hosts are installed with trixie (spec.images.node); hosts run the release of OpenStack that is in trixie`}},
		"a patch": {"        patchesDir: /p\n", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystnoe}\n", []string{
			`region.yaml:24:21: spec.openstack.clusters[0].patchesDir: patches: /p/a.yaml:1: the patch matches nothing: there is no Deployment keystnoe; did you mean "keystone"?`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := messages(t, tc.lines, tc.patches)
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// The example that operators start from has no problems, and renders for every host.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../region.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := check.Load(text, "region.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	problems, err := openstack.Check(doc, nil)
	if err != nil || problems != nil {
		t.Fatal(err, problems)
	}
	region.Default(doc.Region)
	clusters, err := openstack.Clusters(doc.Region, func(string) ([]region.Patch, error) { return nil, fs.ErrNotExist })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		in := programInput(c.Spec.Release)
		in.Cluster, in.RegionName = c, doc.Region.Name
		s, err := openstack.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Objects) == 0 || len(s.Nodes) == 0 {
			t.Errorf("%s: got %d objects and %d hosts, want those of the example", c.Name, len(s.Objects), len(s.Nodes))
		}
	}
}

// A region with warnings is valid.
func TestWarningsAreNotProblems(t *testing.T) {
	warned := check.Problems{{Message: "a", Warning: true}}
	if warned.Err() != nil || warned.Summary("r") != "r: valid, 1 warning" {
		t.Errorf("got %v, %s; want no error, 1 warning", warned.Err(), warned.Summary("r"))
	}
	if both := append(warned, check.Problem{Message: "b"}); both.Summary("r") != "r: 1 problem, 1 warning" || !errors.As(both.Err(), &check.Problems{}) {
		t.Errorf("got %v, %s; want 1 problem, 1 warning", both.Err(), both.Summary("r"))
	}
}
