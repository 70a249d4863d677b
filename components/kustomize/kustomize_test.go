package kustomize_test

import (
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/region"
)

const (
	keystoneImage = "registry.regiond.dev/openstack/epoxy/keystone@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	mariadbImage  = "registry.regiond.dev/openstack/epoxy/mariadb@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func overlay(patches ...region.Patch) kustomize.Overlay {
	return kustomize.Overlay{
		Namespace: "openstack-lab", Labels: map[string]string{"regiond.dev/openstack-cluster": "lab"},
		Images: map[string]string{"keystone": keystoneImage, "mariadb": mariadbImage},
		Configs: map[string]kustomize.Config{"config-keystone": {Secret: "config-keystone-1", Files: []kustomize.ConfigFile{
			{Path: "/etc/keystone/keystone.conf"}, {Path: "/etc/keystone/hooks/start", Executable: true}, {Path: "/etc/other/file"}}}},
		DataDir: "/var/lib/regiond/openstack/lab", Patches: patches,
	}
}

func base() fs.FS { return os.DirFS("testdata/base") }

func build(t *testing.T, o kustomize.Overlay) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomize.Build(base(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]*unstructured.Unstructured{}
	for _, u := range objects {
		name := u.GetName()
		if u.GetKind() == "Job" || u.GetKind() == "ConfigMap" { // named by content
			name = name[:strings.LastIndex(name, "-")]
		}
		m[u.GetKind()+"/"+name] = u
	}
	return m
}

// at returns the value at a path; a number is an index of a list.
func at(t *testing.T, u *unstructured.Unstructured, path ...any) any {
	t.Helper()
	if u == nil {
		t.Fatal("no such object")
	}
	var v any = u.Object
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

func TestBuild(t *testing.T) {
	m := build(t, overlay())
	if len(m) != 5 {
		t.Fatalf("%d objects: %v", len(m), m)
	}
	for name, u := range m {
		if u.GetNamespace() != "openstack-lab" || u.GetLabels()["regiond.dev/openstack-cluster"] != "lab" {
			t.Errorf("%s: namespace %q, labels %v", name, u.GetNamespace(), u.GetLabels())
		}
	}
	d := m["Deployment/keystone"]
	if got := at(t, d, "spec", "template", "metadata", "labels"); !reflect.DeepEqual(got, map[string]any{"app.kubernetes.io/name": "keystone", "regiond.dev/openstack-cluster": "lab"}) {
		t.Errorf("labels of pods: %v", got)
	}
	if got := at(t, d, "spec", "selector", "matchLabels"); len(got.(map[string]any)) != 1 {
		t.Errorf("the selector, which is immutable, has labels of the overlay: %v", got)
	}
	if got := at(t, d, "spec", "template", "spec", "containers", 0, "image"); got != keystoneImage {
		t.Errorf("image %v", got)
	}
	want := map[string]any{"secretName": "config-keystone-1", "defaultMode": int64(0o440), "items": []any{
		map[string]any{"key": "etc.keystone.hooks.start", "path": "hooks/start", "mode": int64(0o550)},
		map[string]any{"key": "etc.keystone.keystone.conf", "path": "keystone.conf"}}}
	if got := at(t, d, "spec", "template", "spec", "volumes", 0, "secret"); !reflect.DeepEqual(got, want) {
		t.Errorf("volume %v, want %v", got, want)
	}
	if got := at(t, m["StatefulSet/mariadb"], "spec", "template", "spec", "volumes", 0, "hostPath", "path"); got != "/var/lib/regiond/openstack/lab/mariadb" {
		t.Errorf("data in %v", got)
	}
	if got, want := at(t, m["Job/schema-keystone"], "spec", "template", "spec", "volumes", 1, "configMap", "name"), m["ConfigMap/scripts"].GetName(); got != want {
		t.Errorf("the Job has scripts of %v, there are %s", got, want)
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	first := build(t, overlay())
	for range 3 {
		if again := build(t, overlay()); !reflect.DeepEqual(first, again) {
			t.Fatal("got different objects for the same input")
		}
	}
}

func TestJobIsNamedByItsContent(t *testing.T) {
	job := func(change func(*kustomize.Overlay)) *unstructured.Unstructured {
		o := overlay()
		change(&o)
		return build(t, o)["Job/schema-keystone"]
	}
	was := job(func(*kustomize.Overlay) {})
	config := job(func(o *kustomize.Overlay) {
		o.Configs = map[string]kustomize.Config{"config-keystone": {Secret: "config-keystone-2", Files: []kustomize.ConfigFile{{Path: "/etc/keystone/keystone.conf"}}}}
	})
	if config.GetName() == was.GetName() {
		t.Error("a Job with changed configuration would not run again")
	}
	if again := job(func(o *kustomize.Overlay) { o.Labels = map[string]string{"regiond.dev/openstack-cluster": "lab"} }); again.GetName() != was.GetName() {
		t.Error("an unchanged Job would run again")
	}
	image := job(func(o *kustomize.Overlay) {
		o.Images = map[string]string{"keystone": strings.ReplaceAll(keystoneImage, "aaa", "ccc"), "mariadb": mariadbImage}
	})
	if image.GetName() == was.GetName() {
		t.Error("a new image does not run the schema's Job again")
	}
}

func TestPatches(t *testing.T) {
	for _, tt := range []struct{ name, content string }{
		{"strategic merge", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystone, namespace: openstack-lab}\nspec: {replicas: 3}\n"},
		{"list", "- target: {kind: Deployment, name: key.*, namespace: openstack-lab}\n  patch: |-\n    - {op: replace, path: /spec/replicas, value: 3}\n"},
		{"patches", "patches:\n- target: {labelSelector: app.kubernetes.io/name=keystone, kind: Deployment}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 3}]'\n"},
		{"targeted merge", "target: {kind: Deployment}\npatch: |-\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: any}\n  spec: {replicas: 3}\n"},
		{"documents", "---\n# none\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystone}\nspec: {replicas: 3}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := build(t, overlay(region.Patch{File: "10.yaml", Content: tt.content}))
			if got := at(t, m["Deployment/keystone"], "spec", "replicas"); got != int64(3) {
				t.Errorf("replicas %v", got)
			}
			if got := at(t, m["Deployment/keystone"], "spec", "template", "spec", "containers", 0, "image"); got != keystoneImage {
				t.Errorf("image %v", got)
			}
		})
	}
}

func TestWrongPatches(t *testing.T) {
	for _, tt := range []struct{ name, content, want string }{
		{"matches nothing", "# mine\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystoen}\n",
			`10.yaml:2: the patch matches nothing: there is no Deployment keystoen; did you mean "keystone"?`},
		{"kind", "apiVersion: apps/v1\nkind: Deploymnet\nmetadata: {name: keystone}\n", `there is no Deploymnet keystone; did you mean "Deployment"?`},
		{"version", "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: keystone}\n", "has another apiVersion"},
		{"target", "- target: {kind: Service, name: keyston}\n  patch: '[]'\n", `there is no Service keyston; did you mean "keystone"?`},
		{"labels", "- target: {labelSelector: app=x}\n  patch: '[]'\n", "there is no object with labels app=x"},
		{"everything", "- target: {}\n  patch: '[]'\n", "would match everything"},
		{"not YAML", "a: 1\nb: [\n", "10.yaml:2: not YAML: did not find expected node content"},
		{"tab", "a:\n\tb: 1\n", "10.yaml:2: not YAML"},
		{"nothing", "# later\n", "10.yaml: the file has no patch"},
		{"no name", "\nkind: Deployment\n", "10.yaml:2: not a patch: write an object with apiVersion, kind and metadata.name"},
		{"other namespace", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keystone, namespace: default}\n", `namespace "default": the cluster's objects are in openstack-lab`},
		{"unknown field", "- target: {kind: Service}\n  patch: '[]'\n  path: x\n", `10.yaml:3: unknown field "path"; did you mean "patch"?`},
		{"unknown selector", "- target: {knid: Service}\n  patch: '[]'\n", `unknown field target.knid; did you mean "kind"?`},
		{"structured", "- target: {kind: Service}\n  patch:\n  - {op: add}\n", "10.yaml:3: patch must be text"},
		{"does not fit", "- target: {kind: Deployment}\n  patch: '[{\"op\": \"remove\", \"path\": \"/spec/none\"}]'\n", "10.yaml:1: the patch does not fit Deployment: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := region.Patch{File: "00.yaml", Content: "apiVersion: v1\nkind: Service\nmetadata: {name: keystone}\n"}
			_, err := kustomize.Build(base(), overlay(good, region.Patch{File: "10.yaml", Content: tt.content}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestBaseThatDoesNotFit(t *testing.T) {
	o := overlay()
	delete(o.Images, "mariadb")
	if _, err := kustomize.Build(base(), o); err == nil || !strings.Contains(err.Error(), `StatefulSet mariadb: container mariadb: the release has no image "mariadb"`) {
		t.Errorf("got %v, want a missing image", err)
	}
	o = overlay()
	o.Configs = map[string]kustomize.Config{"config-keystone": {Secret: "x", Files: []kustomize.ConfigFile{{Path: "/etc/nova/nova.conf"}}}}
	if _, err := kustomize.Build(base(), o); err == nil || !strings.Contains(err.Error(), "volume config: config-keystone has no file below /etc/keystone") {
		t.Errorf("got %v, want a volume without files", err)
	}
	item := region.Patch{File: "x.yaml", Content: `
target: {kind: Deployment}
patch: |-
  - op: add
    path: /spec/template/spec/volumes/0/secret/items
    value: [{key: etc.keystone.keyston.conf, path: x}]
`}
	if _, err := kustomize.Build(base(), overlay(item)); err == nil || !strings.Contains(err.Error(), `has no file etc.keystone.keyston.conf; did you mean "etc.keystone.keystone.conf"?`) {
		t.Errorf("got %v, want a key that no file is behind", err)
	}
}
