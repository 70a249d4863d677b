package service_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// The rows are in the order of the gates that users see, and a service needs only services before
// it.
func TestOrderOfGates(t *testing.T) {
	var gates []string
	for _, s := range service.All {
		for _, n := range s.Needs {
			if !slices.Contains(gates, n) {
				t.Errorf("%s needs %s, which does not come before it", s.Name, n)
			}
		}
		gates = append(gates, s.Gate)
	}
	if !slices.Equal(gates, region.Gates) {
		t.Errorf("got the gates %v, want %v", gates, region.Gates)
	}
}

// lines returns the lines of a list in the sources, without comments.
func lines(t *testing.T, file string) [][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for line := range strings.Lines(string(content)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			all = append(all, f)
		}
	}
	return all
}

// Images and hosts use the rows' user numbers, and pods run as the user of their image.
func TestUsers(t *testing.T) {
	numbers, users := map[string]string{}, map[string]string{} // by user name and by image
	for _, f := range lines(t, "images/oci/recipe/users") {
		numbers[f[0]] = f[1]
	}
	for _, f := range lines(t, "images/oci/recipe/images") {
		users[f[0]] = numbers[f[2]]
	}
	for _, s := range service.All {
		if got, want := users[s.Name], fmt.Sprint(s.User); got != want {
			t.Errorf("the image %s runs as user %s, want %s", s.Name, got, want)
		}
	}
	accounts := 0
	for _, f := range lines(t, "images/node/essential.sh") {
		if f[0] != "account" {
			continue
		}
		if accounts++; numbers[f[1]] != f[2] {
			t.Errorf("user %s is %s on hosts, want %s", f[1], f[2], numbers[f[1]])
		}
	}
	if accounts == 0 {
		t.Error("got no accounts in images/node/essential.sh")
	}
	for _, m := range manifests(t) {
		pod := m.Spec.Template.Spec
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			user := pod.SecurityContext.RunAsUser
			if c.SecurityContext.RunAsUser != nil {
				user = c.SecurityContext.RunAsUser
			}
			if got := fmt.Sprint(*user); got != users[c.Image] {
				t.Errorf("%s: container %s runs as user %s, want %s, that of the image %s", m.Name, c.Name, got, users[c.Image], c.Image)
			}
		}
	}
}

// Each release has an image of each service.
func TestImages(t *testing.T) {
	for _, release := range oci.Releases() {
		names, err := oci.ImageNames(release)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range service.All {
			if !slices.Contains(names, s.Name) {
				t.Errorf("release %s has no image %s", release, s.Name)
			}
		}
	}
}

// Services are configured to listen, and to reach each other, on the rows' ports.
func TestPortsInTemplates(t *testing.T) {
	cluster := regexp.MustCompile(`\.cluster\.address }}:(\d+)`)
	inside := regexp.MustCompile(`(\w+)\.{{ \.cluster\.namespace }}\.svc:(\d+)`)
	ports := map[string]string{}
	var reachable []string // at the cluster's address
	for _, s := range service.All {
		for _, w := range s.Workloads {
			ports[w.Name] = fmt.Sprint(w.Port)
			if s.Name != service.MariaDB.Name && s.Name != service.Memcached.Name {
				reachable = append(reachable, ports[w.Name])
			}
		}
	}
	listening := map[string]string{
		"files/rabbitmq/rabbitmq.conf":     "listeners.tcp.default = " + ports["rabbitmq"] + "\n",
		"files/memcached/arguments":        "--port=" + ports["memcached"] + " ",
		"files/neutron/metadata_agent.ini": "nova_metadata_port = " + ports["nova-metadata"] + "\n",
	}
	found := 0
	err := fs.WalkDir(templates.FS, "files", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(templates.FS, file)
		if err != nil {
			return err
		}
		text := string(content)
		if want := listening[file]; !strings.Contains(text, want) {
			t.Errorf("%s does not have %q", file, want)
		}
		for _, m := range cluster.FindAllStringSubmatch(text, -1) {
			if found++; !slices.Contains(reachable, m[1]) {
				t.Errorf("%s: got port %s at the cluster's address, want one of %v", file, m[1], reachable)
			}
		}
		for _, m := range inside.FindAllStringSubmatch(text, -1) {
			if found++; ports[m[1]] != m[2] {
				t.Errorf("%s: got port %s of %s, want %s", file, m[2], m[1], ports[m[1]])
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("got %d addresses in the templates (%v), want at least 20", found, err)
	}
}

// URLs that other releases of regiond have stored in catalogues do not change, and schemas stay in
// the fastest order.
func TestAddresses(t *testing.T) {
	for got, want := range map[string]string{
		service.Nova.URL("10.99.0.1"):         "http://10.99.0.1:8774/v2.1",
		service.Keystone.URL("10.99.0.1"):     "http://10.99.0.1:5000",
		service.RabbitMQ.Address("10.99.0.1"): "10.99.0.1:5672",
		service.Of("Ready").Name:              "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var jobs []string
	for _, s := range service.Schemas() {
		jobs = append(jobs, s.Name)
	}
	if want := []string{"keystone", "nova", "placement", "neutron", "glance"}; !slices.Equal(jobs, want) {
		t.Errorf("got the schemas' order %v, want %v", jobs, want)
	}
}
