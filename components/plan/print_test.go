package plan_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestPlanText(t *testing.T) {
	before := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api, namespace: openstack-lab}\n"+
		"spec: {strategy: {type: Recreate}, template: {spec: {volumes: [{name: config, secret: {secretName: config-nova-1111111111}}]}}}")
	after := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api, namespace: openstack-lab, labels: {a: b}}\n"+
		"spec: {strategy: {type: Recreate}, template: {spec: {volumes: [{name: config, secret: {secretName: config-nova-2222222222}}]}}}")
	p := &plan.Plan{
		Region: "r1",
		Declarations: []rollout.Change{
			{Action: rollout.ActionUpdate, Object: rollout.Ref{Kind: "Region", Name: "r1"}, Fields: []rollout.Field{
				{Path: "spec.hardware.profiles[compute]", New: "{}", Effects: []region.Effect{region.AtOnce, region.NextInstallation}},
				{Path: "spec.images.dir", Old: "/a", New: "/b", Effects: []region.Effect{region.AtStart}}}},
			{Action: rollout.ActionUpdate, Object: rollout.Ref{Kind: "OpenStackCluster", Name: "lab"}, Fields: []rollout.Field{{Path: "spec.values", New: `{"nova":{"debug":true}}`}}}},
		Machines: []region.Consequence{{Consequence: "BMCs are searched"}, {Server: "r1-1", Consequence: "disk sda serial S1 is overwritten",
			Overwritten: &region.OverwrittenDisk{Name: "sda", SerialNumber: "S1", Holds: "GPT, LVM"}}},
		Clusters: []*plan.Cluster{
			{Cluster: "lab", Release: "epoxy",
				Changes: []rollout.Change{
					{Action: rollout.ActionCreate, Object: rollout.Ref{Kind: "Secret", Namespace: "openstack-lab", Name: "config-nova-2222222222"}},
					rollout.NewChange(rollout.ActionUpdate, before, after),
					rollout.NewChange(rollout.ActionReplace, before, object(t, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mariadb, namespace: openstack-lab}")),
					rollout.NewChange(rollout.ActionDelete, object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: old, namespace: openstack-lab}"), nil),
				},
				Endpoints: []string{"of image, public in old: http://10.0.0.1:9292"},
				Configs: []plan.ConfigChange{{Role: "nova", Files: []plan.FileChange{
					{Path: "/etc/nova/nova.conf", Action: rollout.ActionUpdate, Diff: "@@ -1,2 +1,2 @@\n [DEFAULT]\n-debug = false\n+debug = true\n"},
					{Path: "/etc/nova/secret", Action: rollout.ActionUpdate, SecretsOnly: true}}}},
				Nodes: []plan.NodeChange{
					{Host: "node1", Action: rollout.ActionUpdate, Files: []plan.FileChange{{Path: "/etc/nova/nova.conf", Action: rollout.ActionUpdate, Diff: "@@ -2 +2 @@\n-debug = false\n+debug = true\n"}},
						Services: []plan.ServiceChange{{Name: "nova-compute.service", Action: "restart"}}},
					{Host: "node2", Action: rollout.ActionCreate, Files: []plan.FileChange{{Path: "/etc/nova/nova.conf", Action: rollout.ActionCreate}},
						Services: []plan.ServiceChange{{Name: "nova-compute.service", Action: "start"}}},
					{Host: "node3", Action: rollout.ActionUpdate, Files: []plan.FileChange{{Path: "/etc/nova/nova.conf", Action: rollout.ActionUpdate, Attributes: "0640 root:nova → 0600 root:nova"}},
						Services: []plan.ServiceChange{{Name: "nova-compute.service", Action: "restart"}}},
					{Host: "node4", Action: rollout.ActionDelete}, {Host: "node5", Action: rollout.ActionDelete},
				},
				Warnings: []string{"values of node node9 are not used: the cluster has no such host"}},
			{Cluster: "quiet", Release: "epoxy"},
		},
	}
	var b bytes.Buffer
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const name = "testdata/plan.txt"
	if *update {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestEmptyPlan(t *testing.T) {
	var b bytes.Buffer
	p := &plan.Plan{Region: "r1", Clusters: []*plan.Cluster{{Cluster: "lab"}}}
	if err := p.WriteText(&b); err != nil || b.String() != "No changes: the region is as declared.\n" || !p.Empty() {
		t.Errorf("got %v and %q, want that nothing changes", err, b.String())
	}
}
