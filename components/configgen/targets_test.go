package configgen

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/region"
)

// applied returns all files of a cluster as regiond itself renders them, by role (node for compute)
// and path.
func applied(t *testing.T, s *Source, c Cluster, nodes []Node) map[string]string {
	t.Helper()
	v, _, err := s.Values(c)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, role := range s.Roles() {
		if role == RoleCompute {
			continue
		}
		files, _, err := s.Render(v, role)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			out[role+f.Path] = f.Content
		}
	}
	for _, n := range nodes {
		conf, _, err := s.Node(v, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range conf.Files {
			out[n.Name+f.Path] = f.Content
		}
	}
	return out
}

// hard returns a cluster of testdata whose values cover everything that targets could print
// differently.
func hard() Cluster {
	return testCluster(`{"nova": {"debug": true, "cpu_models": ["a", "b\"c"], "ratio": 0.00001, "conf": {
		"DEFAULT": {"reserved_host_memory_mb": 512, "default_flavor": "{{ x }} {% y %} {# z #} 'q' \\ %s $my_ip"},
		"pci": {"alias": ["{\"a\": {\"b\": 1}}", "y"]}, "new-section.x": {"b": true, "a": 12345678901234567890}}}}`, "",
		own("node2", `{"nova": {"conf": {"libvirt": {"virt_type": "qemu"}, "only3": {"o": ["x", "y"]}, "pci": {}}}}`,
			`{"nova": {"cpu_models": [], "debug": false, "workers": 7}}`),
		own("node3", `{"nova": {"conf": {"libvirt": {"cpu_mode": "host-passthrough"}, "only3": {"o": 1}}}}`, ""))
}

var hardNodes = []Node{node1, {Name: "node2", Address: "10.99.0.12"}, {Name: "node3", Address: "10.99.0.13", Registration: "1"}}

func TestExternalSecrets(t *testing.T) {
	real, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	made := mustSource(t, nil)
	addOptions(made, "nova", "new-section.x", "a", "b")
	addOptions(made, "nova", "only3", "o")
	made.options["epoxy"]["nova"]["only3"].Types["o"] = &optionType{Type: "list"}
	for name, tc := range map[string]struct {
		s     *Source
		c     Cluster
		nodes []Node
	}{
		"made up": {made, hard(), hardNodes},
		"carried": {real, realCluster(t, real, region.ReleaseEpoxy), realNodes},
	} {
		t.Run(name, func(t *testing.T) {
			want := applied(t, tc.s, tc.c, tc.nodes)
			got := map[string]string{}
			store := maps.Clone(tc.c.Secrets)
			hosts := map[string]any{}
			for _, n := range tc.nodes {
				hosts[n.Name] = map[string]any{NodeKeystonePassword: n.Secrets[NodeKeystonePassword], NodeRabbitMQPassword: n.Secrets[NodeRabbitMQPassword]}
			}
			store["hosts"] = hosts
			err := tc.s.ExternalSecrets(tc.c, tc.nodes, func(o Output) error {
				external(t, store, strings.TrimSuffix(o.Name, ".yaml"), o.Content, got)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 || len(got) != len(want) {
				t.Errorf("got %d files, want %d", len(got), len(want))
			}
			for path, content := range want {
				role, rest, _ := strings.Cut(path, "/")
				if slices.ContainsFunc(tc.nodes, func(n Node) bool { return n.Name == role }) {
					role = "compute-" + role
				}
				if k := "config-" + role + "/" + DataKey("/"+rest); got[k] != content {
					t.Errorf("%s:\n%s\nwant:\n%s", k, got[k], content)
				}
			}
		})
	}
}

// addOptions adds options to epoxy that no release has.
func addOptions(s *Source, project, section string, names ...string) {
	s.options["epoxy"][project][section] = sectionData{Options: names, Types: map[string]*optionType{}}
}

// external acts as the External Secrets operator: it fetches the secrets and executes the
// templates.
func external(t *testing.T, tree map[string]any, name string, content []byte, into map[string]string) {
	t.Helper()
	documents := bytes.Split(content, []byte("---\n"))
	var configMap struct {
		Metadata struct{ Name string }
		Data     map[string]string
	}
	var es struct {
		APIVersion, Kind string
		Spec             struct {
			Target struct {
				Name     string
				Template struct {
					TemplateFrom []struct {
						ConfigMap struct {
							Name  string
							Items []struct{ Key, TemplateAs string }
						}
					}
				}
			}
			Data []struct {
				SecretKey string
				RemoteRef struct{ Key, Property string }
			}
		}
	}
	if len(documents) != 2 {
		t.Fatalf("%s: got %d documents, want a ConfigMap and an ExternalSecret", name, len(documents))
	}
	if err := yaml.Unmarshal(documents[0], &configMap); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(documents[1], &es); err != nil {
		t.Fatal(err)
	}
	if es.APIVersion != "external-secrets.io/v1" || es.Kind != "ExternalSecret" || es.Spec.Target.Name != name || configMap.Metadata.Name != name {
		t.Errorf("%s: %+v", name, es)
	}
	values := map[string]string{}
	for _, d := range es.Spec.Data {
		v, ok := property(tree, d.RemoteRef.Property)
		if !ok || d.RemoteRef.Key != "openstack-lab/openstack-secrets" {
			t.Errorf("%s: no secret %+v", name, d)
		}
		values[d.SecretKey] = v
	}
	for _, item := range es.Spec.Target.Template.TemplateFrom[0].ConfigMap.Items {
		tmpl, err := template.New(item.Key).Funcs(operatorFunctions).Option("missingkey=error").Parse(configMap.Data[item.Key])
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := tmpl.Execute(&b, values); err != nil {
			t.Fatal(err)
		}
		into[name+"/"+item.Key] = b.String()
	}
}

// property returns a secret by its JSON path.
func property(tree map[string]any, path string) (string, bool) {
	if v, ok := secrets.Get(tree, path); ok {
		s, isString := v.(string)
		return s, isString
	}
	cut := strings.LastIndexByte(path, '.')
	v, _ := secrets.Get(tree, path[:max(cut, 0)])
	list, _ := v.([]any)
	for i, item := range list {
		if fmt.Sprint(i) == path[cut+1:] {
			s, ok := item.(string)
			return s, ok
		}
	}
	return "", false
}

// operatorFunctions are the template functions of the operator that regiond uses: sprig's replace
// (old, new, text).
var operatorFunctions = template.FuncMap{"replace": func(from, to, text string) string { return strings.ReplaceAll(text, from, to) }}
