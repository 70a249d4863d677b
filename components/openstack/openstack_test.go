package openstack_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// templates returns a small source: one file for pods, one for hosts.
func templates() fs.FS {
	return fstest.MapFS{
		"files.yaml": {Data: []byte(`- {path: /etc/keystone/keystone.conf, template: keystone.conf, roles: [keystone], mode: "0640", owner: root, group: keystone}
- {path: /etc/keystone/start, template: start, roles: [keystone], mode: "0755", owner: root, group: root}
- {path: /etc/nova/nova.conf, template: nova.conf, roles: [compute], mode: "0640", owner: root, group: nova}
`)},
		"services.yaml":        {Data: []byte("- {name: nova-compute.service, files: [/etc/nova/nova.conf]}\n")},
		"values/defaults.yaml": {Data: []byte("keystone: {workers: 1}\n")},
		"values/epoxy.yaml":    {Data: []byte("{}\n")},
		"values/secrets.yaml":  {Data: []byte("keystone: {password: {generate: password, length: 32}}\n")},
		"files/keystone.conf":  {Data: []byte("[DEFAULT]\nworkers = {{ .keystone.workers }}\nregion = {{ .region.name }}\npassword = {{ .keystone.password }}\n")},
		"files/start":          {Data: []byte("#!/bin/sh\n")},
		"files/nova.conf":      {Data: []byte("[DEFAULT]\nmy_ip = {{ .node.address }}\npassword = {{ .keystone.password }}\nregistered = {{ .node.registration }}\n")},
	}
}

func composer(t *testing.T) *openstack.Composer {
	t.Helper()
	c, err := openstack.New(templates(), os.DirFS("../kustomize/testdata/base"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func input() openstack.Input {
	images := map[string]oci.Image{}
	for _, name := range []string{"keystone", "mariadb"} {
		images[name] = oci.Image{Repository: "openstack/epoxy/" + name, Digest: "sha256:" + strings.Repeat("a", 64), Version: "1"}
	}
	return openstack.Input{
		Cluster: &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Spec: region.OpenStackClusterSpec{
			OpenStackDeclaration: region.OpenStackDeclaration{Name: "lab", Release: region.ReleaseEpoxy, Address: "10.99.0.1"}}},
		RegionName: "r1", DataDir: "/var/lib/regiond", Secrets: map[string]any{"keystone": map[string]any{"password": "0123456789abcdef"}},
		Images: oci.Set{Release: "epoxy", Images: images},
		Hosts:  []openstack.Host{{Name: "node1", Address: "10.99.0.101", Registration: "r-1"}, {Name: "node2"}},
	}
}

func desired(t *testing.T, in openstack.Input) *openstack.State {
	t.Helper()
	s, err := composer(t).Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(objects []*unstructured.Unstructured) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetKind()+"/"+o.GetName())
	}
	return strings.Join(all, " ")
}

func TestDesired(t *testing.T) {
	s := desired(t, input())
	var order []string
	for _, o := range s.Objects {
		order = append(order, fmt.Sprintf("%s %s %s", o.GetAnnotations()[openstack.AnnotationGate], o.GetKind(), strings.TrimRight(o.GetName(), "0123456789abcdef")))
		if o.GetKind() != "Namespace" && o.GetNamespace() != "openstack-lab" {
			t.Errorf("%s is in namespace %q", o.GetName(), o.GetNamespace())
		}
		if l := o.GetLabels(); l[openstack.LabelCluster] != "lab" || l[openstack.LabelManagedBy] != "regiond" || l[openstack.LabelPartOf] != "openstack" {
			t.Errorf("%s: labels %v", o.GetName(), l)
		}
	}
	want := []string{" Namespace openstack-l", " Secret config-keystone-", "Keystone Service keystone", "Keystone Job schema-keystone-", "Keystone Deployment keystone"}
	if got := slicesWithout(order, "ConfigMap", "MariaDB"); !reflect.DeepEqual(got, trimmed(want)) {
		t.Errorf("order\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := names(s.Gate(region.ConditionMariaDB)); got != "StatefulSet/mariadb" {
		t.Errorf("gate MariaDB: got %s", got)
	}
	if got := names(s.Gate("")); !strings.HasPrefix(got, "Namespace/openstack-lab Secret/config-keystone-") || !strings.Contains(got, "ConfigMap/scripts-") {
		t.Errorf("before all gates: got %s, want the namespace first, then configuration and scripts", got)
	}
	secret := s.Gate("")[1]
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := base64.StdEncoding.DecodeString(data["etc.keystone.keystone.conf"])
	if err != nil || string(conf) != "[DEFAULT]\nworkers = 1\nregion = r1\npassword = 0123456789abcdef\n" {
		t.Errorf("%v, got\n%s", err, conf)
	}
	if immutable, _, _ := unstructured.NestedBool(secret.Object, "immutable"); !immutable {
		t.Error("the configuration is not immutable")
	}
	items, _, err := unstructured.NestedSlice(s.Objects[len(s.Objects)-1].Object, "spec", "template", "spec", "volumes")
	if err != nil || !strings.Contains(fmt.Sprint(items), "secretName:"+secret.GetName()) || !strings.Contains(fmt.Sprint(items), "mode:360 path:start") {
		t.Errorf("%v, volumes %v", err, items)
	}

	conf1, ok := s.Nodes["node1"]
	if !ok || len(s.Nodes) != 1 {
		t.Fatalf("got the hosts %v, want no configuration for the one without an address", s.Nodes)
	}
	if got := conf1.Files[0].Content; got != "[DEFAULT]\nmy_ip = 10.99.0.101\npassword = 0123456789abcdef\nregistered = r-1\n" {
		t.Errorf("got\n%s", got)
	}
	if len(s.Warnings) != 0 {
		t.Errorf("got the warnings %q", s.Warnings)
	}
	if again := desired(t, input()); !reflect.DeepEqual(s.Objects, again.Objects) || !reflect.DeepEqual(s.Nodes, again.Nodes) {
		t.Error("got different states for the same input")
	}
}

func trimmed(list []string) []string {
	var all []string
	for _, s := range list {
		all = append(all, strings.TrimRight(s, "0123456789abcdef"))
	}
	return all
}

func slicesWithout(list []string, words ...string) []string {
	var all []string
next:
	for _, s := range list {
		for _, w := range words {
			if strings.Contains(s, w) {
				continue next
			}
		}
		all = append(all, s)
	}
	return all
}

func TestConfigIsNamedByContent(t *testing.T) {
	name := func(in openstack.Input) string { return desired(t, in).Gate("")[1].GetName() }
	was := name(input())
	other := input()
	other.RegionName = "r2"
	if name(other) == was {
		t.Error("different content has the same name")
	}
	images := input()
	for k, i := range images.Images.Images {
		i.Digest = "sha256:" + strings.Repeat("b", 64)
		images.Images.Images[k] = i
	}
	if name(images) != was {
		t.Error("the same content has a different name")
	}
}

func TestWithoutSecrets(t *testing.T) {
	in := input()
	in.Secrets = nil
	if got := desired(t, in).Nodes["node1"].Files[0].Content; !strings.Contains(got, "password = <secret:keystone.password>\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestWrongInput(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*openstack.Input)
	}{
		{"no images", "OpenStack cluster lab: images of release epoxy are missing; build them with: regiond image build",
			func(in *openstack.Input) { in.Images = oci.Set{} }},
		{"patch", "/etc/regiond/x.yaml:1: the patch matches nothing", func(in *openstack.Input) {
			in.Cluster.Spec.Patches = []region.Patch{{File: "/etc/regiond/x.yaml", Content: "{apiVersion: v1, kind: Service, metadata: {name: keyston}}"}}
		}},
		{"gate", `there is no gate "Keyston"; did you mean "Keystone"?`, func(in *openstack.Input) {
			in.Cluster.Spec.Patches = []region.Patch{{File: "x", Content: "{apiVersion: v1, kind: Service, metadata: {name: keystone, annotations: {regiond.dev/gate: Keyston}}}"}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input()
			tt.change(&in)
			if _, err := composer(t).Desired(in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	in := input()
	in.Secrets["own"] = map[string]any{"ldap": "pa$my_secret"}
	s := desired(t, in)
	for _, tt := range []struct{ text, want string }{
		{"x pa$my_secret y", "x <secret:own.ldap> y"},
		{"x pa$$my_secret y", "x <secret:own.ldap> y"}, // as escaped in options
		{"x 0123456789abcdef y", "x <secret:keystone.password> y"},
		{"password = 0123456789abcdef", "password = <secret:keystone.password>"},
		{"admin_password = old one", "admin_password = <secret>"},
		{"metadata_proxy_shared_secret=old", "metadata_proxy_shared_secret=<secret>"},
		{"connection = mysql+pymysql://nova:old@db/nova", "connection = mysql+pymysql://nova:<secret>@db/nova"},
		{"transport_url = rabbit://nova:old@10.0.0.1:5672//nova", "transport_url = rabbit://nova:<secret>@10.0.0.1:5672//nova"},
		{`{"name": "nova", "password": "old", "tags": []}`, `{"name": "nova", "password": <secret>, "tags": []}`},
		{"ALTER USER 'x'@'%' IDENTIFIED BY 'old';", "ALTER USER 'x'@'%' IDENTIFIED BY '<secret>';"},
		{"3Tj2mBSEP0y1qPdgSm3RgYd2kzB9i2KJcL1ZkMmQbqI=\n", "<secret>\n"},
		{"auth_type = password\n[token]\nprovider = fernet\nworkers = 2", "auth_type = password\n[token]\nprovider = fernet\nworkers = 2"},
		{"url = http://10.0.0.1:5000/v3", "url = http://10.0.0.1:5000/v3"},
	} {
		if got := s.Redact(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
		if strings.Contains(s.Redact(tt.text), "old") {
			t.Errorf("%q: the result shows a secret", tt.text)
		}
	}
}

func TestClusters(t *testing.T) {
	r := &region.Region{}
	r.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "a"}, {Name: "b", PatchesDir: "/srv/patches"}}
	read := func(dir string) ([]region.Patch, error) {
		switch dir {
		case "/srv/patches":
			return []region.Patch{{File: "/srv/patches/1.yaml", Content: "x"}}, nil
		case "/broken":
			return nil, errors.New("broken")
		}
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	all, err := openstack.Clusters(r, read)
	if err != nil || len(all) != 2 || all[0].Name != "a" || len(all[0].Spec.Patches) != 0 || len(all[1].Spec.Patches) != 1 || all[1].Kind != "OpenStackCluster" {
		t.Fatalf("%v %+v", err, all)
	}
	r.Spec.OpenStack.Clusters[1].PatchesDir = "/none"
	if _, err := openstack.Clusters(r, read); err == nil || !strings.Contains(err.Error(), "spec.openstack.clusters[1].patchesDir: open /none: file does not exist") {
		t.Errorf("got %v", err)
	}
	r.Spec.OpenStack.Clusters[1].PatchesDir = "/broken"
	if _, err := openstack.Clusters(r, read); err == nil || !strings.Contains(err.Error(), "patches of OpenStack cluster b: broken") {
		t.Errorf("got %v", err)
	}
}

func TestReadPatches(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"20.yaml": "b", "10.yml": "a", ".hidden.yaml": "x", "README": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := openstack.ReadPatches(dir)
	want := []region.Patch{{File: filepath.Join(dir, "10.yml"), Content: "a"}, {File: filepath.Join(dir, "20.yaml"), Content: "b"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", err, got)
	}
	if _, err := openstack.ReadPatches(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "30.yaml"), make([]byte, 600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openstack.ReadPatches(dir); err == nil || !strings.Contains(err.Error(), "30.yaml: the patches of a cluster may not exceed") {
		t.Errorf("got %v, want the limit", err)
	}
}

// regionOption is where services, and the client, are told the region of the endpoints that they use.
var regionOption = regexp.MustCompile(`(?m)^\s*(?:os_)?region_name(?: =|:) "?([^"\n]*)"?$`)

// The endpoints' region follows the region's name for a cluster that is created now. One from
// before keeps what it had, until it is told otherwise.
func TestKeystoneRegion(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded, values, want string
	}{
		"created before":                    {"", "", "RegionOne"},
		"created in region r1":              {"r1", "", "r1"},
		"created in r1, values set another": {"r1", `{"keystone": {"region": "north"}}`, "north"},
	} {
		in := programInput(region.ReleaseEpoxy)
		in.Cluster.Spec.KeystoneRegion = tc.recorded
		if tc.values != "" {
			in.Cluster.Spec.Values = &runtime.RawExtension{Raw: []byte(tc.values)}
		}
		s, err := openstack.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Values.Lookup("keystone.region"); got != tc.want {
			t.Errorf("%s: %v, want %s", name, got, tc.want)
		}
		files := map[string]string{}
		for role, of := range s.Configs {
			for _, f := range of {
				files[role+f.Path] = f.Content
			}
		}
		for _, f := range s.Nodes["node1"].Files {
			files["node1"+f.Path] = f.Content
		}
		found := map[string]bool{}
		for file, content := range files {
			for _, m := range regionOption.FindAllStringSubmatch(content, -1) {
				found[file] = true
				if m[1] != tc.want {
					t.Errorf("%s: %s: got the region %q, want %q", name, file, m[1], tc.want)
				}
			}
		}
		for _, file := range []string{"client/etc/openstack/clouds.yaml", "glance/etc/glance/glance-api.conf", "nova/etc/nova/nova.conf",
			"neutron/etc/neutron/neutron.conf", "placement/etc/placement/placement.conf", "node1/etc/nova/nova.conf"} {
			if !found[file] {
				t.Errorf("%s: %s names no region", name, file)
			}
		}
	}
	clusters, err := openstack.Clusters(&region.Region{ObjectMeta: metav1.ObjectMeta{Name: "north-1"}, Spec: region.RegionSpec{OpenStack: region.OpenStack{
		Clusters: []region.OpenStackDeclaration{{Name: "a"}}}}}, func(string) ([]region.Patch, error) { return nil, nil })
	if err != nil || clusters[0].EndpointRegion() != "north-1" {
		t.Errorf("%v, %v", clusters[0].Spec, err)
	}
}
