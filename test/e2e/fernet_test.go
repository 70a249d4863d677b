//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/region"
)

// TestFernetKeys: keys that are due rotate under a Keystone that runs: it goes on without a restart,
// signs with the key that was staged, and takes the tokens that it has issued before.
func TestFernetKeys(t *testing.T) {
	l := NewLab(t, *regiond, "k")
	l.Wait(l.Up("--config", l.Write("spec: {openstack: {}, machines: [{name: n1, kind: namespace}]}")))
	token := fmt.Sprint(decode[map[string]any](l, l.Seed("regiond", "openstack", "--", "token", "issue", "-f", "json"))["id"])
	pod, files := l.keystonePod(), l.fernetFiles()
	keys := l.Kubectl("get", "secret", "--namespace", "openstack-lab", "config-fernet", "-o", `jsonpath={.metadata.annotations.regiond\.dev/content}`)
	l.Kubectl("annotate", "secret", "--namespace", "openstack-lab", "openstack-secrets", "--overwrite",
		`regiond.dev/fernet-keys={"keys":"`+keys+`","since":"2020-01-01T00:00:00Z"}`)
	started := time.Now()
	// regiond must have seen for ten minutes that Keystone has the keys; then the kubelet needs up to two.
	l.Eventually("Keystone has other keys", 15*time.Minute, func() (bool, string) {
		now := l.fernetFiles()
		return now["2"] != files["2"], l.Kubectl("get", "openstackcluster", "lab", "-o", "jsonpath={.status.fernetKeys}")
	})
	l.Logf("rotated after %s", time.Since(started).Round(time.Second))
	if now := l.fernetFiles(); now["2"] != files["0"] || now["1"] != files["2"] || now["0"] == files["0"] || len(now) != 3 {
		l.Errorf("the keys were %v and are %v, want the one that was staged, 0, as the highest number, and the one that was that as 1", files, now)
	}
	if now := l.keystonePod(); now != pod {
		l.Errorf("Keystone was started again: it was %s and is %s", pod, now)
	}
	address := decode[region.OpenStackCluster](l, l.Kubectl("get", "openstackcluster", "lab", "-o", "json")).Spec.Address
	if code := l.Seed("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--header", "X-Auth-Token: "+token,
		"--header", "X-Subject-Token: "+token, "http://"+address+":5000/v3/auth/tokens"); code != "200" {
		l.Errorf("a token that was issued before the rotation: got status %s, want 200", code)
	}
	l.AwaitOpenStack(time.Minute)
	if events := l.Kubectl("get", "events", "--field-selector", "reason=FernetKeysRotated", "--no-headers"); strings.Count(events, "\n") != 1 {
		l.Errorf("got these Events of rotations, want one:\n%s", events)
	}
}

// keystonePod is Keystone's pod, and how often it was started.
func (l *Lab) keystonePod() string {
	l.Helper()
	return l.Kubectl("get", "pods", "--namespace", "openstack-lab", "--selector", "app.kubernetes.io/name=keystone",
		"-o", "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{end}")
}

// fernetFiles are the digests of the keys in Keystone's pod, by their numbers.
func (l *Lab) fernetFiles() map[string]string {
	l.Helper()
	out := l.Kubectl("exec", "--namespace", "openstack-lab", "deployment/keystone", "--", "sh", "-c", "cd /etc/keystone/fernet-keys && sha256sum [0-9]*")
	files := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 {
			files[f[1]] = f[0]
		}
	}
	return files
}
