package configgen

import (
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// The playbook restarts the readers of a changed file, once and in the order of services.yaml, and
// then starts services that are not running.
func TestPlaybookOfServices(t *testing.T) {
	s := mustSource(t, map[string]string{"services.yaml": "- name: first.service\n  files: [/etc/nova/nova.conf]\n" +
		"- name: nova-compute.service\n  files: [/etc/nova/nova.conf, /etc/systemd/system/nova-compute.service]\n  reload: true\n"})
	var plays []play
	err := s.Ansible(testCluster("", ""), []Node{node1}, func(o Output) error {
		if o.Name != "playbook.yaml" {
			return nil
		}
		return yaml.Unmarshal(o.Content, &plays)
	})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plays, func(p play) bool { return p.Hosts == "openstack_lab_compute" })
	if i < 0 {
		t.Fatalf("no play of compute hosts in %+v", plays)
	}
	notified := map[string]any{}
	var after []string
	for _, task := range plays[i].Tasks {
		name, _ := task["name"].(string)
		if task["notify"] != nil {
			notified[name] = task["notify"]
		}
		if unit, ok := task["ansible.builtin.systemd"].(map[string]any); ok {
			if task["when"] != "openstack_root is not defined" {
				t.Errorf("%s touches services although openstack_root is defined", name)
			}
			if unit["name"] != nil && (unit["enabled"] != true || unit["state"] != "started") {
				t.Errorf("%s: got %v, want it enabled and started", name, unit)
			}
			after = append(after, name)
		} else if task["ansible.builtin.meta"] != nil {
			after = append(after, name)
		}
	}
	want := []string{"reload units", "restart services whose files changed", "first.service", "nova-compute.service"}
	if !slices.Equal(after, want) {
		t.Errorf("after the files: got %q, want %q", after, want)
	}
	var handlers []string
	for _, h := range plays[i].Handlers {
		handlers = append(handlers, h["name"].(string))
	}
	if want := []string{"restart first.service", "restart nova-compute.service", "reload nova-compute.service"}; !slices.Equal(handlers, want) {
		t.Errorf("handlers: got %q, want %q", handlers, want)
	}
	for file, want := range map[string][]any{
		"/etc/nova/nova.conf":                      {"restart first.service", "reload nova-compute.service"},
		"/etc/systemd/system/nova-compute.service": {"restart nova-compute.service"}, // a reload does not apply a changed unit
	} {
		if got, _ := notified[file].([]any); !slices.Equal(got, want) {
			t.Errorf("%s notifies %q, want %q", file, got, want)
		}
	}
}
