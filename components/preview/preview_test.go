package preview_test

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/preview"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
	"regiond.dev/regiond/region/scheme"
)

// example is the cluster of the example, away from its control plane.
func example(t *testing.T, nodes ...string) *preview.Preview {
	t.Helper()
	return load(t, preview.Config{Nodes: nodes})
}

// load previews the cluster of the example.
func load(t *testing.T, c preview.Config) *preview.Preview {
	t.Helper()
	b, err := os.ReadFile("../../region.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := check.Load(b, "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc.Region.Spec.Hardware.Profiles[1].KernelArguments = []string{"iommu=pt", "hugepages=8"}
	region.Default(doc.Region)
	c.Document, c.Network = doc, func(p *region.Profile) ([]preview.NetworkFile, error) {
		return []preview.NetworkFile{{Path: "/run/net/lan0", Content: "network of " + p.Name}}, nil
	}
	p, err := preview.Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func render(t *testing.T, p *preview.Preview, target string) map[string]configgen.Output {
	t.Helper()
	all := map[string]configgen.Output{}
	if err := p.Render(target, func(o configgen.Output) error { all[o.Name] = o; return nil }); err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return all
}

func TestNodesGetWhatTheirProfileSays(t *testing.T) {
	all := render(t, example(t), preview.TargetApply)
	if got, want := string(all["nodes/r1-db-1/kernel-arguments"].Content), "iommu=pt\nhugepages=8\n"; got != want {
		t.Errorf("kernel arguments: got %q, want %q", got, want)
	}
	got, want := all["nodes/r1-db-1/run/net/lan0"], configgen.File{Path: "/run/net/lan0", Mode: "0644", Owner: "root", Group: "root", Network: true,
		Content: "network of two-disks"}
	if got.File.Path != want.Path || got.File.Mode != want.Mode || !got.File.Network || string(got.Content) != want.Content || got.Node != "r1-db-1" {
		t.Errorf("network: got %+v, want %+v of r1-db-1", got, want)
	}
	for _, name := range []string{"keystone/etc/keystone/keystone.conf", "nodes/r1-db-1/etc/nova/nova.conf"} {
		if len(all[name].Content) == 0 {
			t.Errorf("%s: got nothing, want a file", name)
		}
	}
}

func TestTargets(t *testing.T) {
	p := example(t)
	for target, has := range map[string]string{
		preview.TargetKustomize: "overlay/kustomization.yaml", preview.TargetExternalSecrets: "config-keystone.yaml", preview.TargetAnsible: "playbook.yaml",
	} {
		all := render(t, p, target)
		if _, ok := all[has]; !ok {
			names := make([]string, 0, len(all))
			for name := range all {
				names = append(names, name)
			}
			slices.Sort(names)
			t.Errorf("%s: got %q, want %s among them", target, names, has)
		}
	}
	if err := p.Render("helm", nil); err == nil || !strings.Contains(err.Error(), `unknown target "helm"`) {
		t.Errorf("got %v, want a refusal of the target helm", err)
	}
}

// Whoever follows the caution leaves no secret of the playbook in clear, neither the cluster's nor a
// host's.
func TestPlaybookWithSecretsNamesTheFilesToEncrypt(t *testing.T) {
	composer, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := secrets.Generate(composer.Source().Secrets(), nil, nil, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: openstack.Namespace("general"), Name: openstack.SecretName},
		Data:       map[string][]byte{openstack.SecretKey: content}}).Build()
	p := load(t, preview.Config{API: api, WithSecrets: true})
	const encrypt = "*_vars/*/secrets.yaml"
	if got := p.Caution(preview.TargetAnsible); !strings.Contains(got, "ansible-vault encrypt DIR/"+encrypt) {
		t.Errorf("got caution %q, want the command that encrypts %s", got, encrypt)
	}
	clear := map[string]bool{} // folders with a file of secrets
	for name, o := range render(t, p, preview.TargetAnsible) {
		named, err := path.Match(encrypt, name)
		if err != nil {
			t.Fatal(err)
		}
		if named {
			top, _, _ := strings.Cut(name, "/")
			clear[top] = true
			continue
		}
		for _, secret := range texts(tree) {
			if strings.Contains(string(o.Content), secret) {
				t.Errorf("%s has a secret and is not one of %s", name, encrypt)
			}
		}
	}
	if !clear["group_vars"] || !clear["host_vars"] {
		t.Errorf("got files of secrets in %v, want them in group_vars and host_vars", clear)
	}
	if got := example(t).Caution(preview.TargetAnsible); got != "" {
		t.Errorf("without secrets: got caution %q, want none", got)
	}
	if got := p.Caution(preview.TargetExternalSecrets); got != "" {
		t.Errorf("secrets that are left to the operator: got caution %q, want none", got)
	}
}

// texts are the long texts in a tree.
func texts(tree any) (all []string) {
	switch x := tree.(type) {
	case map[string]any:
		for _, v := range x {
			all = append(all, texts(v)...)
		}
	case []any:
		for _, v := range x {
			all = append(all, texts(v)...)
		}
	case string:
		if len(x) >= 16 {
			all = append(all, x)
		}
	}
	return all
}

func TestExplain(t *testing.T) {
	p := example(t, "r1-db-1")
	e, err := p.Explain("r1-db-1", "nova.conf", "DEFAULT.cpu_allocation_ratio")
	if err != nil || e.Node != "r1-db-1" || e.Role != configgen.RoleCompute {
		t.Errorf("on the node: got %+v and %v, want the option of its role", e, err)
	}
	if e, err = p.Explain("", "keystone.conf", "token.expiration"); err != nil || e.Role != "keystone" {
		t.Errorf("in pods: got %+v and %v, want the option of role keystone", e, err)
	}
	for _, tt := range []struct{ node, file, want string }{
		{"", "libvirtd.conf", "libvirtd.conf is a file of compute hosts; name one by --node"},
		{"", "nvoa.conf", "no role has a file nvoa.conf; roles are "},
		{"r1-db-2", "nova.conf", "node r1-db-2 is not one of [r1-db-1]"},
	} {
		if _, err := p.Explain(tt.node, tt.file, "DEFAULT.debug"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of node %q: got %v, want %s", tt.file, tt.node, err, tt.want)
		}
	}
}
