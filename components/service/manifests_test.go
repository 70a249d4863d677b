package service_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/components/service"
)

// manifest has the fields of an object of the base that are compared with the table.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Type     string                 `json:"type"`
		Ports    []corev1.ServicePort   `json:"ports"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

func (m manifest) workload() bool { return m.Kind == "Deployment" || m.Kind == "StatefulSet" }

func (m manifest) gate() string { return m.Annotations["regiond.dev/gate"] }

// manifests returns the manifests of the base, in the order of its files.
func manifests(t *testing.T) []manifest {
	t.Helper()
	base, err := kustomize.Base()
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(base, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []manifest
	for _, f := range files {
		content, err := fs.ReadFile(base, f)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(content), "\n---\n") {
			var m manifest
			if err := yaml.Unmarshal([]byte(part), &m); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if m.Kind != "Kustomization" {
				all = append(all, m)
			}
		}
	}
	if len(all) < 20 {
		t.Fatalf("got %d manifests, want at least 20; were they moved?", len(all))
	}
	return all
}

// The manifests have exactly the workloads of the rows, with their gates.
func TestWorkloads(t *testing.T) {
	got, want := map[string]string{}, map[string]string{}
	for _, m := range manifests(t) {
		if m.workload() {
			got[m.Name] = m.gate()
		}
	}
	for _, s := range service.All {
		for _, w := range s.Workloads {
			want[w.Name] = s.Gate
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("workloads and their gates in the manifests are %v, want %v", got, want)
	}
}

// A workload that listens does so on its row's port, also by its program's arguments, and has a
// Kubernetes Service on that port.
func TestPorts(t *testing.T) {
	argument := regexp.MustCompile(`^:(\d+)$`)
	got, want := map[string]string{}, map[string]string{}
	for _, m := range manifests(t) {
		if m.Kind == "Service" {
			got["Service "+m.Name] = fmt.Sprint(m.Spec.Ports[0].Port)
		}
		if !m.workload() {
			continue
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				got[m.Name] += fmt.Sprint(p.ContainerPort)
			}
			for _, a := range c.Command {
				if n := argument.FindStringSubmatch(a); n != nil && n[1] != got[m.Name] {
					t.Errorf("%s: its program's arguments have port %s, and its container port %s", m.Name, n[1], got[m.Name])
				}
			}
		}
	}
	for _, s := range service.All {
		for _, w := range s.Workloads {
			if w.Port != 0 && w.Name != "rabbitmq" { // RabbitMQ also has internal ports
				want[w.Name] = fmt.Sprint(w.Port)
			}
			if w.Port != 0 {
				want["Service "+w.Name] = fmt.Sprint(w.Port)
			}
		}
	}
	want["Service "+service.Management] = fmt.Sprint(service.ManagementPort)
	if broker := fmt.Sprint(service.RabbitMQ.Port(), service.ManagementPort); strings.ReplaceAll(broker, " ", "") != got["rabbitmq"] {
		t.Errorf("rabbitmq has the ports %s, want %s", got["rabbitmq"], broker)
	}
	delete(got, "rabbitmq")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ports in the manifests are %v, want %v", got, want)
	}
}

// Pods that listen nowhere are ready when they have a connection to the broker, which the kernel
// lists in hexadecimal (proc_net_tcp.rst).
func TestProbesOfTheBroker(t *testing.T) {
	want, probes := fmt.Sprintf(":%04X 01 ", service.RabbitMQ.Port()), 0
	for _, m := range manifests(t) {
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if p == nil || p.Exec == nil || !slices.Contains(p.Exec.Command, "/proc/net/tcp") {
					continue
				}
				if probes++; !slices.Contains(p.Exec.Command, want) {
					t.Errorf("%s: got the probe %q, want %q in it", c.Name, p.Exec.Command, want)
				}
			}
		}
	}
	if probes < 4 {
		t.Errorf("got %d probes of a connection to the broker, want at least 4", probes)
	}
}

// Each service with a schema has a job with the row's databases as arguments, and a branch in the
// script that creates the schema.
func TestSchemaJobs(t *testing.T) {
	base, err := kustomize.Base()
	if err != nil {
		t.Fatal(err)
	}
	script, err := fs.ReadFile(base, "scripts/schema-sync")
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, m := range manifests(t) {
		if m.Kind != "Job" {
			continue
		}
		for _, c := range m.Spec.Template.Spec.InitContainers {
			if c.Name == "prepare" {
				got[m.Name] = m.gate() + " " + strings.Join(c.Command, " ")
			}
		}
	}
	for _, s := range service.Schemas() {
		want["schema-"+s.Name] = s.Gate + " /scripts/schema-prepare " + s.Name + " " + strings.Join(s.Schema.Databases, " ")
		if !strings.Contains(string(script), "\n"+s.Name+")\n") {
			t.Errorf("schema-sync does not create the schema of %s", s.Name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("jobs and their commands in the manifests are %v, want %v", got, want)
	}
}

// Each folder that pods mount from the seed host is in a row, and belongs to the user that they run
// as.
func TestFolders(t *testing.T) {
	owners, mounted := map[string]int{}, map[string]bool{}
	for _, s := range service.All {
		for _, f := range s.Folders {
			owners[f.Name] = s.User
		}
	}
	for _, m := range manifests(t) {
		for _, v := range m.Spec.Template.Spec.Volumes {
			if v.HostPath == nil {
				continue
			}
			name := path.Base(v.HostPath.Path)
			mounted[name] = true
			if user := *m.Spec.Template.Spec.SecurityContext.RunAsUser; int(user) != owners[name] {
				t.Errorf("%s runs as user %d, and its folder %s belongs to %d", m.Name, user, name, owners[name])
			}
		}
	}
	if len(mounted) != len(owners) {
		t.Errorf("folders in the manifests are %v, want %v", mounted, owners)
	}
}
