//go:build e2e

package e2e

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"
)

var tempest = flag.String("tempest", "", "the virtual environment of Python that has tempest (scripts/build-tempest)")

// tempestSets are what is asked of tempest, and how many tests of each pass at least. A set of
// which most is skipped proves nothing.
var tempestSets = []struct {
	name, tests string
	passed      int
}{
	{"snapshots", `^tempest\.api\.compute\.images\.`, 30},
	{"identity", `^tempest\.api\.identity\.`, 130},
	{"image", `^tempest\.api\.image\.`, 52},
	{"network", `^tempest\.api\.network\.`, 150},
	{"compute", `^tempest\.api\.compute\.(?!images\.)`, 250},
}

// TestTempest lets OpenStack's own tests judge the cloud, on nodes that are namespaces. What they skip by themselves follows from
// tempest/tempest.conf, and what is skipped by name is in tempest/skips, each with its reason.
func TestTempest(t *testing.T) {
	if *tempest == "" {
		t.Fatal("-tempest is not set; run: make e2e-tempest")
	}
	l := NewLab(t, *regiond, "t")
	l.Wait(l.Up("--config", l.Write(twoNodes)))
	l.VM("create", "vm1") // uploads the image, too
	l.VM("delete", "vm1")
	workspace := l.tempestWorkspace()
	for _, set := range tempestSets {
		t.Run(set.name, func(t *testing.T) {
			if passed := l.on(t).runTempest(workspace, set.tests); passed < set.passed {
				t.Errorf("%d tests passed, want at least %d", passed, set.passed)
			}
		})
	}
}

// tempestWorkspace is a folder with tempest's configuration of the lab's cloud, which is given what its tests need.
func (l *Lab) tempestWorkspace() string {
	l.Helper()
	dir := filepath.Join(l.TempDir(), "tempest")
	if out, err := l.tempest("init", "--workspace-path", filepath.Join(l.TempDir(), "workspaces.yaml"), dir).CombinedOutput(); err != nil {
		l.Fatalf("tempest init: %v\n%s", err, out)
	}
	rc := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^export (\w+)='(.*)'$`).FindAllStringSubmatch(l.Seed("regiond", "openstack", "rc"), -1) {
		rc[m[1]] = m[2]
	}
	image := l.OpenStack("image", "list")[0]["ID"].(string)
	// All projects use it. It does not stop by ACPI, so it is given five seconds, not a minute.
	l.Seed("regiond", "openstack", "--", "image", "set", "--public", "--property", "os_shutdown_timeout=5", image)
	const flavor, other, network = "tempest.1", "tempest.2", "tempest"
	l.openstackObject("flavor", "create", "--id", flavor, "--ram", "128", "--disk", "1", flavor)
	l.openstackObject("flavor", "create", "--id", other, "--ram", "160", "--disk", "1", other)
	created := l.openstackObject("network", "create", "--external", "--provider-network-type", "vlan", "--provider-physical-network", "physnet1", network)
	l.openstackObject("subnet", "create", "--network", network, "--subnet-range", "203.0.113.0/24", network)
	var extensions []string
	for _, e := range l.OpenStack("extension", "list", "--network") {
		extensions = append(extensions, e["Alias"].(string))
	}
	var conf bytes.Buffer
	err := template.Must(template.ParseFiles("tempest/tempest.conf")).Execute(&conf, map[string]any{
		"Dir": dir, "URL": rc["OS_AUTH_URL"], "User": rc["OS_USERNAME"], "Password": rc["OS_PASSWORD"], "Project": rc["OS_PROJECT_NAME"],
		"Region": l.OpenStack("region", "list")[0]["Region"], "Image": image,
		"Flavor": flavor, "OtherFlavor": other, "Network": created["id"], "NetworkName": network, "Extensions": strings.Join(extensions, ","),
	})
	if err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "etc", "tempest.conf"), conf.Bytes(), 0o600); err != nil {
		l.Fatal(err)
	}
	return dir
}

// openstackObject runs Debian's client, which prints one object.
func (l *Lab) openstackObject(args ...string) map[string]any {
	l.Helper()
	return decode[map[string]any](l, l.Seed(append(append([]string{"regiond", "openstack", "--"}, args...), "-f", "json")...))
}

var passedLine = regexp.MustCompile(`(?m)^ - Passed: (\d+)$`)

// runTempest runs a set of tests, fails with what of it failed, and returns how many passed.
func (l *Lab) runTempest(workspace, tests string) (passed int) {
	l.Helper()
	skips, err := filepath.Abs("tempest/skips")
	if err != nil {
		l.Fatal(err)
	}
	c := l.tempest("run", "--regex", tests, "--exclude-list", skips, "--concurrency", "2")
	c.Dir = workspace
	started := time.Now()
	out, err := c.CombinedOutput()
	l.Logf("%s\nafter %s", out, time.Since(started).Round(time.Second))
	if err != nil {
		l.Errorf("tempest: %v", err)
	}
	if m := passedLine.FindSubmatch(out); m != nil {
		passed, _ = strconv.Atoi(string(m[1])) // digits
	}
	return passed
}

// tempest runs on the seed host's network. Its home is the test's, where it looks for workspaces.
func (l *Lab) tempest(args ...string) *exec.Cmd {
	c := exec.Command("ip", append([]string{"netns", "exec", "rl-" + l.name + "-seed", filepath.Join(*tempest, "bin", "tempest")}, args...)...)
	c.Env = append(os.Environ(), "HOME="+l.TempDir())
	return c
}
