package rollout_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestConsequences(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api}\nspec: {replicas: 1, strategy: {type: Recreate}, template: {a: 1}}"
	for _, tt := range []struct {
		name, live, result, want string
		action                   rollout.Action
	}{
		{"recreate", deployment, strings.Replace(deployment, "a: 1", "a: 2", 1), "pods of nova-api restart: old ones stop before new ones start, it is away until they are ready", rollout.ActionUpdate},
		{"rolling", deployment, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api}\nspec: {template: {a: 2}}", "pods of nova-api restart: new ones are ready before old ones stop", rollout.ActionUpdate},
		{"scale", deployment, strings.Replace(deployment, "replicas: 1", "replicas: 3", 1), "it is scaled from 1 to 3 pods, running ones go on", rollout.ActionUpdate},
		{"label", deployment, strings.Replace(deployment, "nova-api}", "nova-api, labels: {a: b}}", 1), "", rollout.ActionUpdate},
		{"stateful", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mariadb}\nspec: {template: {a: 1}}", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mariadb}\nspec: {template: {a: 2}}",
			"pods of mariadb restart one by one, each is away until it is ready again", rollout.ActionUpdate},
		{"service", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {template: {a: 1}}", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {template: {a: 2}}", "", rollout.ActionUpdate},
		{"job", deployment, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: schema}", "it runs once", rollout.ActionCreate},
		{"gone", deployment, deployment, "its pods stop", rollout.ActionDelete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := rollout.NewChange(tt.action, object(t, tt.live), object(t, tt.result)).Consequence; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPlanText(t *testing.T) {
	before := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api, namespace: openstack-lab}\n"+
		"spec: {strategy: {type: Recreate}, template: {spec: {volumes: [{name: config, secret: {secretName: config-nova-1111111111}}]}}}")
	after := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api, namespace: openstack-lab, labels: {a: b}}\n"+
		"spec: {strategy: {type: Recreate}, template: {spec: {volumes: [{name: config, secret: {secretName: config-nova-2222222222}}]}}}")
	p := &rollout.Plan{
		Region: "r1",
		Declarations: []rollout.Change{
			{Action: rollout.ActionUpdate, Object: rollout.Ref{Kind: "Region", Name: "r1"}, Fields: []rollout.Field{
				{Path: "spec.hardware.profiles[compute]", New: "{}", Effects: []region.Effect{region.AtOnce, region.NextInstallation}},
				{Path: "spec.images.dir", Old: "/a", New: "/b", Effects: []region.Effect{region.AtStart}}}},
			{Action: rollout.ActionUpdate, Object: rollout.Ref{Kind: "OpenStackCluster", Name: "lab"}, Fields: []rollout.Field{{Path: "spec.values", New: `{"nova":{"debug":true}}`}}}},
		Machines: []region.Consequence{{Consequence: "BMCs are searched"}, {Server: "r1-1", Consequence: "disk sda serial S1 is overwritten",
			Overwritten: &region.OverwrittenDisk{Name: "sda", SerialNumber: "S1", Holds: "GPT, LVM"}}},
		Clusters: []*rollout.ClusterPlan{
			{Cluster: "lab", Release: "epoxy",
				Changes: []rollout.Change{
					{Action: rollout.ActionCreate, Object: rollout.Ref{Kind: "Secret", Namespace: "openstack-lab", Name: "config-nova-2222222222"}},
					rollout.NewChange(rollout.ActionUpdate, before, after),
					rollout.NewChange(rollout.ActionReplace, before, object(t, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mariadb, namespace: openstack-lab}")),
					rollout.NewChange(rollout.ActionDelete, nil, object(t, "apiVersion: v1\nkind: Service\nmetadata: {name: old, namespace: openstack-lab}")),
				},
				Endpoints: []string{"of image, public in old: http://10.0.0.1:9292"},
				Configs: []rollout.ConfigChange{{Role: "nova", Files: []rollout.FileChange{
					{Path: "/etc/nova/nova.conf", Action: rollout.ActionUpdate, Diff: "@@ -1,2 +1,2 @@\n [DEFAULT]\n-debug = false\n+debug = true\n"},
					{Path: "/etc/nova/secret", Action: rollout.ActionUpdate, SecretsOnly: true}}}},
				Nodes: []rollout.NodeChange{
					{Host: "node1", Action: rollout.ActionUpdate, Files: []rollout.FileChange{{Path: "/etc/nova/nova.conf", Action: rollout.ActionUpdate, Diff: "@@ -2 +2 @@\n-debug = false\n+debug = true\n"}},
						Services: []rollout.ServiceChange{{Name: "nova-compute.service", Action: "restart"}}},
					{Host: "node2", Action: rollout.ActionCreate, Files: []rollout.FileChange{{Path: "/etc/nova/nova.conf", Action: rollout.ActionCreate}},
						Services: []rollout.ServiceChange{{Name: "nova-compute.service", Action: "start"}}},
					{Host: "node3", Action: rollout.ActionUpdate, Files: []rollout.FileChange{{Path: "/etc/nova/nova.conf", Action: rollout.ActionUpdate, Attributes: "0640 root:nova → 0600 root:nova"}},
						Services: []rollout.ServiceChange{{Name: "nova-compute.service", Action: "restart"}}},
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
	p := &rollout.Plan{Region: "r1", Clusters: []*rollout.ClusterPlan{{Cluster: "lab"}}}
	if err := p.WriteText(&b); err != nil || b.String() != "No changes: the region is as declared.\n" || !p.Empty() {
		t.Errorf("%v %q", err, b.String())
	}
}

func TestPodWaits(t *testing.T) {
	status := func(c ...corev1.ContainerStatus) corev1.PodStatus { return corev1.PodStatus{ContainerStatuses: c} }
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(message string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message}
	}
	for _, tt := range []struct {
		name string
		pod  corev1.PodStatus
		want string
	}{
		{"ready", status(corev1.ContainerStatus{Name: "a", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), ""},
		{"image", status(corev1.ContainerStatus{Name: "api", State: waiting("ImagePullBackOff", "Back-off pulling image x: not found")}), "container api: ImagePullBackOff: Back-off pulling image x: not found"},
		{"crash", status(corev1.ContainerStatus{Name: "api", State: waiting("CrashLoopBackOff", "back-off 5m"),
			LastTerminationState: corev1.ContainerState{Terminated: ended("Traceback\n  no such option: x")}}), "container api: CrashLoopBackOff; before, it ended with status 1: Traceback no such option: x"},
		{"init", corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "sync", State: corev1.ContainerState{Terminated: ended("no table")}}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "api", State: waiting("PodInitializing", "")}}}, "container sync: ended with status 1: no table"},
		{"probe", status(corev1.ContainerStatus{Name: "api", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC))}}}),
			"container api runs since 10:00:00, but its probe does not succeed yet"},
		{"no host", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes: Insufficient memory"}}},
			"no host for its pod: 0/1 nodes: Insufficient memory"},
		{"new", corev1.PodStatus{Phase: corev1.PodPending}, "pod p is being started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := rollout.PodWaits(corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: tt.pod}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
