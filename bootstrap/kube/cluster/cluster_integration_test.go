//go:build integration

// These tests start the real control plane from a regiond binary in separate mount and network
// namespaces, as root:
//
//	go test -tags ...,integration ./bootstrap/kube/cluster -regiond=/path/to/regiond
package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/images/oci/ocitest"
)

var regiond = flag.String("regiond", "", "the binary with the applets")

// objects are the cluster's DNS, a Deployment with a Service, and a Secret.
var objects = "testdata/objects.yaml"

const (
	// partImage contains this test binary, which plays parts in pods.
	partImage = "regiond.local/part:1"
	readyTime = 12 * time.Second
)

var componentNames = []string{"containerd", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}

func TestControlPlane(t *testing.T) {
	if *regiond == "" {
		t.Fatal("pass the binary to test: -regiond=/path/to/regiond")
	}
	// Programs that enter the seed's namespaces start at its root.
	for _, path := range []*string{regiond, &objects} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			t.Fatal(err)
		}
		*path = absolute
	}
	s := newSeed(t)
	s.start(t)
	ready := s.waitReady(t, 2*time.Minute)
	t.Logf("node Ready and schedulable %.1f s after start (target on an idle machine: %.0f s)", ready.Seconds(), readyTime.Seconds())
	s.importPart(t)
	s.kubectl(t, "apply", "-f", objects)
	s.kubectl(t, "-n", "kube-system", "rollout", "status", "deploy/coredns", "--timeout=90s")
	s.kubectl(t, "rollout", "status", "deploy/web", "--timeout=90s")

	// In order: each test leaves the control plane running for the next.
	t.Run("pods", s.testPods)
	t.Run("access", s.testAccess)
	t.Run("names", s.testNames)
	t.Run("secrets are encrypted", s.testEncryption)
	t.Run("renewal", s.testRenewal)
	t.Run("flush of the host's ruleset", s.testFlush)
	t.Run("kill components", s.testKillComponents)
	t.Run("kill the supervisor", s.testKillSupervisor)
	t.Run("idle", s.testIdle)
	t.Run("stop", s.testStop)
	t.Run("teardown", s.testTeardown)
}

func (s *seed) testPods(t *testing.T) {
	// A kubelet that has just started does not know its pods yet.
	s.eventually(t, 20*time.Second, func() error {
		out, err := s.tryKubectl("logs", "deploy/web")
		if err == nil && !strings.Contains(out, "serving") {
			err = fmt.Errorf("logs: %q", out)
		}
		return err
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"resolve", "kubernetes.default.svc.cluster.local"}, "10.43.0.1"},
		{[]string{"resolve", "web"}, "10.43."},
		{[]string{"get", "http://web/"}, "200 hello"},
	} {
		// A Service's rules appear shortly after its endpoints.
		s.eventually(t, 20*time.Second, func() error {
			out, err := s.tryKubectl(append([]string{"exec", "deploy/web", "--", "/part", "part"}, c.args...)...)
			if err == nil && !strings.HasPrefix(out, c.want) {
				err = fmt.Errorf("%v in a pod: %q, want %q", c.args, out, c.want)
			}
			return err
		})
	}
}

func (s *seed) testAccess(t *testing.T) {
	for path, want := range map[string]string{"/readyz": "200", "/livez": "200", "/version": "401", "/api/v1/nodes": "401"} {
		if out := s.part(t, "get", "https://"+address+":6443"+path); !strings.HasPrefix(out, want) {
			t.Errorf("anonymous GET %s: %.60q, want %s", path, out, want)
		}
	}
	if out := s.part(t, "get", "https://"+address+":10250/pods"); !strings.HasPrefix(out, "401") {
		t.Errorf("anonymous GET of the kubelet's pods: %.60q, want 401", out)
	}
	// etcd rejects a client certificate of the cluster's authority, whatever its permissions there.
	if out, err := s.tryPart("etcd-get", s.data, "admin", "/registry/secrets/default/proof"); err == nil {
		t.Errorf("etcd trusted a client of the cluster's authority: got %q", out)
	}
	// The Node authorizer: a kubelet may read only the Secrets of its own pods.
	node := filepath.Join(s.data, "config", "kubelet.kubeconfig")
	if out, err := s.enter(s.kubectlPath(), "--kubeconfig", node, "get", "secrets", "-A"); err == nil {
		t.Errorf("a kubelet read all Secrets: %q", out)
	}
	var open []string
	if err := filepath.Walk(filepath.Join(s.data, "pki"), func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && info.Mode().Perm()&0o077 != 0 {
			open = append(open, path)
		}
		return err
	}); err != nil || len(open) > 0 {
		t.Errorf("readable by others: %v (%v)", open, err)
	}
}

// testNames checks the names that distinguish this region's objects on the host from others', and
// that the table of the data directory has all entries.
func (s *seed) testNames(t *testing.T) {
	entries, err := os.ReadDir(s.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		row, known := datadir.Find(e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if !known || info.Mode() != row.Mode {
			t.Errorf("got %s with mode %s in the data directory, want a row in its table with this mode: got row %q with mode %s", e.Name(), info.Mode(), row.Name, row.Mode)
		}
	}
	for _, command := range []string{"ip -br link show " + config.Bridge(regionID), "nft list table ip " + config.MasqueradeTable(regionID)} {
		if out, err := s.enter(strings.Fields(command)...); err != nil {
			t.Errorf("%s: %v %s", command, err, out)
		}
	}
	for _, component := range componentNames {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.pid(t, component)))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(comm)); got != component[:min(len(component), 15)] {
			t.Errorf("ps and ss show %s as %q", component, got)
		}
	}
}

// testFlush simulates a reload of Debian's firewall.
func (s *seed) testFlush(t *testing.T) {
	if out, err := s.enter("nft", "flush", "ruleset"); err != nil {
		t.Fatal(out, err)
	}
	began := time.Now()
	s.eventually(t, time.Minute, func() error {
		for _, c := range s.components() {
			if c.Name == "kube-proxy" && !c.Ready && strings.Contains(c.Problem, "kube-proxy; pods and Services can't be reached") {
				return nil
			}
		}
		return fmt.Errorf("not reported: %+v", s.components())
	})
	s.eventually(t, time.Minute, func() error {
		out, err := s.enter("nft", "list", "tables")
		for _, want := range []string{"table ip " + config.MasqueradeTable(regionID) + "\n", "table ip kube-proxy\n"} {
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("%q is not among the tables: %s", want, out)
			}
		}
		return err
	})
	t.Logf("both tables were restored after %.1f s", time.Since(began).Seconds())
	s.testPods(t)
}

func (s *seed) testEncryption(t *testing.T) {
	raw := s.part(t, "etcd-get", s.data, "etcd/kube-apiserver-client", "/registry/secrets/default/proof")
	if !strings.HasPrefix(raw, "k8s:enc:secretbox:v1:key1:") || strings.Contains(raw, "not-to-be-seen") {
		t.Errorf("in etcd: got %.60q, want it encrypted", raw)
	}
	if out := s.kubectl(t, "get", "secret", "proof", "-o", "jsonpath={.data.key}"); out != "bm90LXRvLWJlLXNlZW4=" {
		t.Errorf("through the API server: got %q, want it decrypted", out)
	}
}

func (s *seed) testKillComponents(t *testing.T) {
	pods := s.containers(t)
	for _, component := range componentNames {
		before := s.pid(t, component)
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatalf("%s: %v", component, err)
		}
		began := time.Now()
		s.eventually(t, time.Minute, func() error {
			for _, c := range s.components() {
				if c.Name == component && (!c.Ready || c.PID == before) {
					return fmt.Errorf("%s has not come back: %+v", component, c)
				}
			}
			return nil
		})
		t.Logf("%s came back in %.1f s", component, time.Since(began).Seconds())
		s.eventually(t, time.Minute, func() error {
			_, err := s.tryKubectl("get", "--raw", "/readyz")
			return err
		})
	}
	s.eventually(t, time.Minute, func() error {
		out, err := s.tryKubectl("exec", "deploy/web", "--", "/part", "part", "get", "http://web/")
		if err == nil && !strings.HasPrefix(out, "200") {
			err = fmt.Errorf("web: %q", out)
		}
		return err
	})
	if now := s.containers(t); !slices.Equal(now, pods) {
		t.Errorf("containers were replaced:\nbefore %v\nafter  %v", pods, now)
	}
}

func (s *seed) testKillSupervisor(t *testing.T) {
	pods := s.containers(t)
	uid := s.kubectl(t, "get", "node", "seed", "-o", "jsonpath={.metadata.uid}")
	shims := s.processes(t, "containerd-shim")
	s.kill(t)
	s.start(t) // at once, while children of the killed one may still be exiting
	ready := s.waitReady(t, 2*time.Minute)
	t.Logf("after kill -9: ready again in %.1f s", ready.Seconds())
	if now := s.kubectl(t, "get", "node", "seed", "-o", "jsonpath={.metadata.uid}"); now != uid {
		t.Errorf("got a new node object %s, want %s kept", now, uid)
	}
	if now := s.containers(t); !slices.Equal(now, pods) {
		t.Errorf("containers were replaced:\nbefore %v\nafter  %v", pods, now)
	}
	if now := s.processes(t, "containerd-shim"); !slices.Equal(now, shims) {
		t.Errorf("got the shims %v, want %v kept", now, shims)
	}
	for _, component := range componentNames {
		if n := len(s.processes(t, component+" ")); n != 1 {
			t.Errorf("got %d processes of %s, want one", n, component)
		}
	}
	s.testPods(t)
}

func (s *seed) testStop(t *testing.T) {
	pods := s.processes(t, "/part part serve")
	began := time.Now()
	s.stop(t)
	t.Logf("stopped in %.1f s", time.Since(began).Seconds())
	for _, component := range componentNames {
		if left := s.processes(t, component+" "); len(left) > 0 {
			t.Errorf("got processes of %s left: %v", component, left)
		}
	}
	if now := s.processes(t, "/part part serve"); !slices.Equal(now, pods) || len(now) != 2 {
		t.Errorf("got the pods' processes %v, want %v kept", now, pods)
	}
	if files, err := filepath.Glob(filepath.Join(s.data, "run", "*.pid")); err != nil || len(files) > 0 {
		t.Errorf("got pid files left: %v %v", files, err)
	}
}

func (s *seed) testTeardown(t *testing.T) {
	// Another containerd's shim, foreign tables, and the bridge and tables of another region must
	// stay.
	otherBridge := config.Bridge("99999999")
	for _, command := range []string{"nft add table ip other", "nft add table ip " + config.MasqueradeTable("99999999"), "ip link add " + otherBridge + " type bridge"} {
		if out, err := s.enter(strings.Fields(command)...); err != nil {
			t.Fatal(out, err)
		}
	}
	other := filepath.Join(s.dir, "containerd-shim-other")
	if err := os.Symlink("/bin/sleep", other); err != nil {
		t.Fatal(err)
	}
	shim := exec.Command(other, "1000")
	shim.Args = []string{other, "1000"}
	if err := shim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shim.Process.Kill(); _ = shim.Wait() }()

	root := s.cgroupRoot(t)
	s.part(t, "teardown", s.data)
	s.part(t, "teardown", s.data) // may be repeated

	if left := s.processes(t, ""); len(left) != 1 { // the process that keeps the namespaces
		for _, pid := range left {
			t.Errorf("left: %d %s", pid, commandLine(pid))
		}
	}
	if err := shim.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a shim of another containerd was killed: %v", err)
	}
	mounts, err := s.enter("cat", "/proc/self/mountinfo")
	if err != nil || strings.Contains(mounts, s.data+"/") {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
	if links, err := s.enter("ip", "-br", "link"); err != nil || strings.Contains(links, config.Bridge(regionID)) || strings.Contains(links, "veth") ||
		!strings.Contains(links, otherBridge) {
		t.Errorf("links are left (%v):\n%s", err, links)
	}
	// kube-proxy's table belongs to the other region, which has written it last.
	tables, err := s.enter("nft", "list", "tables")
	if err != nil || strings.Contains(tables, config.MasqueradeTable(regionID)) {
		t.Errorf("tables are left (%v):\n%s", err, tables)
	}
	for _, want := range []string{"table ip other\n", "table ip regiond-99999999\n", "table ip kube-proxy\n"} {
		if !strings.Contains(tables, want) {
			t.Errorf("%q was removed:\n%s", want, tables)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup" + root, "/sys/fs/cgroup/*" + root} {
		if cgroups, err := filepath.Glob(pattern); err != nil || len(cgroups) > 0 {
			t.Errorf("cgroups are left: %v %v", cgroups, err)
		}
	}
	for _, dir := range []string{"/run/containerd", "/var/lib/kubelet", "/var/log/containers"} {
		if out, err := s.enter("ls", dir); err == nil && !s.had[dir] {
			t.Errorf("%s is left: %s", dir, out)
		}
	}
}

// importPart imports an image of this test binary into containerd.
func (s *seed) importPart(t *testing.T) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(s.dir, "part.tar")
	layer := static.NewLayer(ocitest.Layer(t, "part", string(self)), types.DockerUncompressedLayer)
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config = v1.Config{Entrypoint: []string{"/part"}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(partImage)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	if out, err := s.enter(*regiond, "ctr", "--address", filepath.Join(s.data, "containerd", "containerd.sock"), "-n", "k8s.io", "images", "import", archive); err != nil {
		t.Fatal(out, err)
	}
}
