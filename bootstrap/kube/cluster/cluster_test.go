package cluster

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
)

func TestMountsBelow(t *testing.T) {
	const mountinfo = `22 1 0:21 / /proc rw - proc proc rw
30 1 254:0 / /var/lib/regiond rw - ext4 /dev/vdb rw
31 30 0:40 / /var/lib/regiond/kubelet rw - ext4 /dev/vdc rw
32 31 0:41 / /var/lib/regiond/kubelet/pods/1/volumes/a\040b rw,shared:5 - tmpfs tmpfs rw
33 32 0:42 / /var/lib/regiond/kubelet/pods/1/volumes/a\040b/sub rw - tmpfs tmpfs rw
34 30 0:43 / /var/lib/regiond/kubelet-other/x rw - tmpfs tmpfs rw
35 30 0:44 / /var/lib/regiond/etcd rw - ext4 /dev/vdd rw
36 30 0:45 / /var/lib/regiond/containerd/state/netns/cni-1 rw - nsfs nsfs rw
37 30 0:46 / /var/lib/regiond2/containerd/x rw - tmpfs tmpfs rw
broken
`
	got := mountsBelow(mountinfo, []string{"/var/lib/regiond/kubelet", "/var/lib/regiond/containerd/"})
	want := []string{
		"/var/lib/regiond/kubelet/pods/1/volumes/a b",
		"/var/lib/regiond/kubelet/pods/1/volumes/a b/sub",
		"/var/lib/regiond/containerd/state/netns/cni-1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPodProcesses(t *testing.T) {
	const ours, theirs = "/var/lib/regiond/containerd/containerd.sock", "/run/containerd/containerd.sock"
	shim := func(socket string) []string {
		return []string{"/var/lib/regiond/bin/1/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address", socket}
	}
	all := []process{
		{1, 0, []string{"/sbin/init"}},
		{10, 1, shim(ours)},
		{11, 10, []string{"/pause"}},
		{12, 10, []string{"/web"}},
		{13, 12, []string{"/web", "worker"}},
		{20, 1, shim(theirs)},
		{21, 20, []string{"/pause"}},
		{30, 1, []string{"vim", "-address", ours}},
		{31, 1, []string{"containerd-shim-runc-v2", "-address"}},
		{32, 1, []string{""}},
		{40, 1, shim(ours + ".ttrpc")},
	}
	var got []int
	for _, p := range podProcesses(all, func(p process) bool { return sameSocket(shimSocket(p.args), ours) }) {
		got = append(got, p.pid)
	}
	slices.Sort(got)
	if want := []int{10, 11, 12, 13}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A data directory may be a symbolic link: pods that were started with one path are found with the
// other.
func TestSocketIsTheSameBehindALink(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "real", "containerd", "config.toml"), "")
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	link, real := filepath.Join(dir, "link/containerd/containerd.sock"), filepath.Join(dir, "real/containerd/containerd.sock")
	if !sameSocket(link, real) {
		t.Errorf("%s and %s are treated as two sockets, want one", link, real)
	}
	for _, other := range []string{real + ".ttrpc", filepath.Join(dir, "containerd.sock"), filepath.Join(dir, "missing/containerd.sock")} {
		if sameSocket(other, real) {
			t.Errorf("%s and %s are treated as one socket, want two", other, real)
		}
	}
}

// Tearing down one region leaves the tables of other regions alone, and kube-proxy's if another
// region has written it.
func TestTablesThatTearDownRemoves(t *testing.T) {
	const own, other = "regiond-0a1b2c3d", "regiond-99999999"
	for _, c := range []struct {
		name    string
		present []string
		want    []string
	}{
		{"alone", []string{"filter", own, "kube-proxy"}, []string{own, "kube-proxy"}},
		{"another region", []string{own, other, "kube-proxy"}, []string{own}},
		{"another region of an earlier version", []string{"regiond", own, "kube-proxy"}, []string{own}},
		{"another Kubernetes' proxy", []string{"filter", "kube-proxy"}, nil},
		{"only another region", []string{other, "kube-proxy"}, nil},
		{"none", nil, nil},
	} {
		if got := tablesToDelete(c.present, own); !slices.Equal(got, c.want) {
			t.Errorf("%s: of %q got %q removed, want %q", c.name, c.present, got, c.want)
		}
	}
}

func TestRemoveShimSockets(t *testing.T) {
	dir := t.TempDir()
	sockets := filepath.Join(dir, "run", "s")
	bundle := func(id, address string) {
		path := filepath.Join(dir, "containerd", "state", "io.containerd.runtime.v2.task", "k8s.io", id)
		write(t, filepath.Join(path, "address"), address)
	}
	ours, others, elsewhere := filepath.Join(sockets, "1"), filepath.Join(sockets, "2"), filepath.Join(dir, "precious")
	for _, f := range []string{ours, others, elsewhere} {
		write(t, f, "")
	}
	bundle("a", "unix://"+ours)
	bundle("b", "unix://"+elsewhere)
	bundle("c", "unix://"+filepath.Join(sockets, "gone"))
	if err := removeShimSockets(filepath.Join(dir, "containerd", "containerd.sock")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{ours: false, others: true, elsewhere: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %t", path, err == nil)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRemoveForeignKeepsExistingFolders(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"a", "b"} {
		paths = append(paths, filepath.Join(dir, name))
	}
	old := foreignPaths
	foreignPaths = paths
	t.Cleanup(func() { foreignPaths = old })
	data := filepath.Join(dir, "data")
	write(t, filepath.Join(data, "config", "x"), "")
	write(t, filepath.Join(paths[0], "theirs"), "")
	if err := recordForeign(data); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(paths[1], "ours"), "")
	if err := recordForeign(data); err != nil { // a second start
		t.Fatal(err)
	}
	if err := removeForeign(data); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(paths[0], "theirs")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(paths[1]); !os.IsNotExist(err) {
		t.Errorf("got %v, want the folder removed", err)
	}
	// A record that names another folder is ignored.
	precious := filepath.Join(dir, "precious")
	write(t, precious, "")
	write(t, foreignRecord(data), `["`+precious+`"]`)
	if err := removeForeign(data); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestParseResolvConf(t *testing.T) {
	got := parseResolvConf(`# generated
search example.org
nameserver 127.0.0.53
nameserver 10.0.0.2
nameserver ::1
nameserver fe80::1%eth0
nameserver 10.0.0.2
nameserver nonsense
nameserver
options edns0
`)
	if len(got) != 2 || got[0].String() != "10.0.0.2" || got[1].String() != "fe80::1%eth0" {
		t.Errorf("%v", got)
	}
}

func TestResolvConf(t *testing.T) {
	got, err := resolvConf([]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")})
	if err != nil || string(got) != "nameserver 10.0.0.2\nnameserver 10.0.0.3\n" {
		t.Errorf("%q %v", got, err)
	}
}

func TestNodeWaits(t *testing.T) {
	ready := func(s corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s, Reason: "KubeletNotReady", Message: "no network"}}
	}
	for want, node := range map[string]corev1.Node{
		"it has not reported its state": {},
		"it is not Ready: KubeletNotReady: no network": {
			Status: corev1.NodeStatus{Conditions: ready(corev1.ConditionFalse)}},
		"its pod range is not recorded yet": {
			Status: corev1.NodeStatus{Conditions: ready(corev1.ConditionTrue)}},
		"the controller manager has not removed the taint node.kubernetes.io/not-ready yet": {
			Spec:   corev1.NodeSpec{PodCIDR: "10.42.0.0/24", Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady}}},
			Status: corev1.NodeStatus{Conditions: ready(corev1.ConditionTrue)}},
		"": {
			Spec:   corev1.NodeSpec{PodCIDR: "10.42.0.0/24", Taints: []corev1.Taint{{Key: "someone/else"}}},
			Status: corev1.NodeStatus{Conditions: ready(corev1.ConditionTrue)}},
	} {
		if got := nodeWaits(&node); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func testCluster(t *testing.T) *Cluster {
	t.Helper()
	keys, err := pki.Load(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{config: Config{
		NodeName: "seed", Address: netip.MustParseAddr("10.0.0.1"), PKI: keys,
		PodCIDR: netip.MustParsePrefix("10.42.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"),
	}}
}

func TestDescribeNodeAndBinding(t *testing.T) {
	c := testCluster(t)
	c.node = config.Node{Name: "seed", NodePodCIDR: netip.MustParsePrefix("10.42.0.0/24")}
	c.client = fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "seed", Labels: map[string]string{"other": "label"}}})
	ctx := t.Context()
	for range 2 { // simulates a restart
		if err := c.describeNode(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.bindKubeletClient(ctx); err != nil {
			t.Fatal(err)
		}
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, "seed", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Spec.PodCIDR != "10.42.0.0/24" || !slices.Equal(node.Spec.PodCIDRs, []string{"10.42.0.0/24"}) || len(node.Labels) != 2 {
		t.Errorf("%+v %+v", node.Spec, node.Labels)
	}
}

func TestWaitNodeSaysWhatIsMissing(t *testing.T) {
	c := testCluster(t)
	c.node.Name = "seed"
	c.client = fake.NewClientset()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.waitNode(ctx); err == nil || !strings.Contains(err.Error(), "the node has not registered") {
		t.Errorf("%v", err)
	}
}

func TestCertificatesFitTheirUse(t *testing.T) {
	c := testCluster(t)
	first, err := issue(c.config)
	if err != nil {
		t.Fatal(err)
	}
	again, err := issue(c.config)
	if err != nil || again != first {
		t.Errorf("got other files the second time: %v", err)
	}
	inventory, err := c.config.PKI.Inventory()
	if err != nil {
		t.Fatal(err)
	}
	issuers := map[string]string{}
	for _, i := range inventory {
		issuers[i.Name] = i.Issuer
	}
	for name, want := range map[string]string{
		"etcd/server": "regiond-etcd-ca", "etcd/kube-apiserver-client": "regiond-etcd-ca",
		"front-proxy/client": "regiond-front-proxy-ca",
		"admin":              "regiond-ca", "kubelet-client": "regiond-ca", "kube-apiserver": "regiond-ca",
	} {
		if issuers[name] != want {
			t.Errorf("%s: got the issuer %q, want %s", name, issuers[name], want)
		}
	}
}

func TestEncryptionKeyIsGeneratedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := writeEncryptionKey(path); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeEncryptionKey(path); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(path)
	if err != nil || string(first) != string(second) {
		t.Errorf("the key changed (%v)", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

// Every component occurs once, after its dependencies.
func TestComponents(t *testing.T) {
	c := testCluster(t)
	c.node = config.Node{Name: "seed", Address: c.config.Address, PKI: c.config.PKI, DataDir: t.TempDir()}
	var names []string
	for _, s := range c.components() {
		names = append(names, s.Name)
		for _, a := range s.After {
			if !slices.Contains(names, a) {
				t.Errorf("%s starts after %s, which does not precede it", s.Name, a)
			}
		}
		if s.Probe == nil {
			t.Errorf("%s has no probe", s.Name)
		}
	}
	want := []string{"containerd", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}

// A folder below /sys/fs/cgroup need not be a hierarchy; nothing is created in one that is not.
func TestHierarchyIsAMount(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{dir, filepath.Join(dir, "missing")} {
		if is, err := isHierarchy(folder); is || err != nil {
			t.Errorf("%s: got recognized as a hierarchy of cgroup v1: %t, %v; want false", folder, is, err)
		}
	}
	// This machine's own hierarchies of cgroup v1, if any.
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		left, right, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(left); strings.HasPrefix(right, "cgroup ") && len(fields) > 4 {
			if is, err := isHierarchy(fields[4]); !is || err != nil {
				t.Errorf("%s is not recognized as a hierarchy of cgroup v1: %v", fields[4], err)
			}
		}
	}
}
