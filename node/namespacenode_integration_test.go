//go:build integration

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/nodeinit"
)

// Network namespaces of this test, and the address of the region in them.
const (
	seedNamespace = "agent-test-seed"
	nodeNamespace = "agent-test-node"
	seedAddress   = "10.97.0.1"
	goodAddress   = "10.97.0.2/24"
)

// testProgram is this test in a node's root file system: it is process 1 there, in the place of the lab's program.
const testProgram = "/opt/node.test"

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch a := os.Args; {
	case len(a) > 1 && a[1] == "node-init":
		err = nodeinit.Run(ctx, []string{testProgram, "node-command"}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case len(a) > 2 && a[1] == "node-command":
		err = nodeinit.Command(ctx, a[2], a[3:], os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// namespaceNode is a node in namespaces of its own, with the real agent.
type namespaceNode struct {
	t       *testing.T
	root    string
	region  *fakeRegion
	init    *exec.Cmd
	program []string // process 1 and its arguments
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// newNamespaceNode makes two network namespaces with a cable between them, a region in one and the
// root file system for the other.
func newNamespaceNode(t *testing.T) *namespaceNode {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes namespaces: run it as root")
	}
	remove := func() {
		for _, n := range []string{seedNamespace, nodeNamespace} {
			_ = exec.Command("ip", "netns", "del", n).Run() // mostly there is none
		}
		for _, group := range []string{"/sys/fs/cgroup/systemd/agent-test", "/sys/fs/cgroup/agent-test"} {
			_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run() // the same
		}
	}
	remove()
	t.Cleanup(remove)
	for _, args := range []string{"netns add " + seedNamespace, "netns add " + nodeNamespace,
		"-n " + seedNamespace + " link add to-node type veth peer name eth0 netns " + nodeNamespace,
		"-n " + seedNamespace + " addr add " + seedAddress + "/24 dev to-node", "-n " + seedNamespace + " link set to-node up",
		"-n " + nodeNamespace + " addr add " + goodAddress + " dev eth0", "-n " + nodeNamespace + " link set eth0 up",
		"-n " + nodeNamespace + " link set lo up"} {
		command(t, "ip", strings.Fields(args)...)
	}
	n := &namespaceNode{t: t, root: t.TempDir(), region: &fakeRegion{t: t, life: time.Hour, anyMachine: true}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n.region.key = key
	n.region.ca = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.ParseIP(seedAddress)}}
	der, err := x509.CreateCertificate(rand.Reader, n.region.ca, n.region.ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(n.region)
	s.Listener.Close()
	s.Listener = listenIn(t, seedNamespace, seedAddress+":0")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	id := n.region.serve(s)
	id.ServerUID = ""

	for _, d := range []string{"usr", "proc", "sys", "run", "dev", "etc/systemd/system", "opt", "tmp", "var/lib", "var/log"} {
		if err := os.MkdirAll(filepath.Join(n.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(n.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	writeIdentity(t, filepath.Join(n.root, "var/lib/regiond"), id)
	n.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	n.write("etc/group", "root:x:0:\n")
	n.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	n.write("etc/systemd/system/test.target", "[Unit]\nDefaultDependencies=no\nWants=regiond-node.service\n")
	n.write("etc/systemd/system/regiond-node.service", "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/opt/regiond-node run\nRestart=always\nRestartSec=1\n"+
		"StandardError=append:/var/log/regiond-node.log\n")
	command(t, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(n.root, "opt/regiond-node"), "regiond.dev/regiond/cmd/regiond-node")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(n.root, testProgram), b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

// listenIn listens inside of a network namespace: a socket stays in the one that it was made in.
func listenIn(t *testing.T, namespace, address string) net.Listener {
	t.Helper()
	type result struct {
		net.Listener
		err error
	}
	c := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		f, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			c <- result{err: err}
			return
		}
		l, err := net.Listen("tcp", address)
		c <- result{l, err}
	}()
	r := <-c
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.Listener
}

func (n *namespaceNode) write(path, content string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.root, path), []byte(content), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *namespaceNode) read(path string) string {
	b, err := os.ReadFile(filepath.Join(n.root, path))
	if err != nil {
		return ""
	}
	return string(b)
}

// boot in namespaces: $1 is the root, $2 the program to be process 1, the rest its arguments.
const boot = `set -e
root=$1; shift
mount --make-rprivate /
mount --bind /usr "$root/usr"; mount -t proc proc "$root/proc"; mount -t tmpfs tmpfs "$root/run"; mount --rbind /dev "$root/dev"
mount -t sysfs sysfs "$root/sys"
if [ -d /sys/fs/cgroup/systemd ]; then
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"; mkdir "$root/sys/fs/cgroup/systemd"
	mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
else
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
exec chroot "$root" "$@"`

// enclose puts this shell into a control group of its own, which a systemd inside takes for the whole tree.
const enclose = `set -e
group=/sys/fs/cgroup/agent-test; [ ! -d /sys/fs/cgroup/systemd ] || group=/sys/fs/cgroup/systemd/agent-test
mkdir -p $group; echo $$ > $group/cgroup.procs
exec nsenter --net=/run/netns/` + nodeNamespace + ` unshare --mount --pid --uts --ipc --cgroup --fork --kill-child sh -c "$BOOT" sh "$@"`

// boot starts the node.
func (n *namespaceNode) boot() {
	n.t.Helper()
	n.init = exec.Command("sh", append([]string{"-c", enclose, "sh", n.root}, n.program...)...)
	n.init.Env = append(os.Environ(), "BOOT="+boot, "container=regiond-test")
	log, err := os.OpenFile(filepath.Join(n.root, "console.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.init.Stdout, n.init.Stderr = log, log
	if err := n.init.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// kill is a power cut: all processes end at once.
func (n *namespaceNode) kill() {
	if n.init != nil {
		_ = n.init.Process.Kill() // --kill-child takes process 1 along, and with it the namespace
		_ = n.init.Wait()         // killed
		n.init = nil
	}
}

// first is the number of the node's process 1 outside.
func (n *namespaceNode) first() int {
	n.t.Helper()
	out := command(n.t, "pgrep", "-P", strconv.Itoa(n.init.Process.Pid))
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		n.t.Fatal(err)
	}
	return pid
}

func (n *namespaceNode) enter(args ...string) string {
	n.t.Helper()
	pid := strconv.Itoa(n.first())
	return command(n.t, "nsenter", append([]string{"--target", pid, "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd=/",
		"env", "PATH=" + nodeinit.Path}, args...)...)
}

// conf is a configuration with a network script, and a service that reads a file.
func (n *namespaceNode) conf(address, app string) string {
	n.t.Helper()
	file := func(path, content string, network bool) configuration.File {
		return configuration.File{Path: path, Mode: "0644", Owner: "root", Group: "root", Content: content, Network: network}
	}
	content, _, err := configuration.Configuration{
		Files: []configuration.File{
			file("/etc/app.conf", app, false),
			file("/etc/network.conf", address, true),
			file("/etc/systemd/system/app.service", `[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'cat /etc/app.conf >> /var/log/app.said; exec sleep 100000'
Restart=always
RestartSec=100ms
[Install]
WantedBy=test.target
`, false),
			file("/etc/systemd/system/network.service", `[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip addr flush dev eth0; read address < /etc/network.conf; ip addr add $$address dev eth0'
[Install]
WantedBy=test.target
`, false),
		},
		Services: []configuration.Service{
			{Name: "network.service", Files: []string{"/etc/network.conf", "/etc/systemd/system/network.service"}, Oneshot: true},
			{Name: "app.service", Files: []string{"/etc/app.conf", "/etc/systemd/system/app.service"}},
		}}.Encode()
	if err != nil {
		n.t.Fatal(err)
	}
	return string(content)
}

// see waits for something of the Host's status.
func (n *namespaceNode) see(what string, f func(region.HostStatus, string) bool) region.HostProcess {
	n.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; <-time.After(20 * time.Millisecond) {
		n.region.mu.Lock()
		st := *n.region.host.Status.DeepCopy()
		n.region.mu.Unlock()
		reason := ""
		for _, c := range st.Conditions {
			if c.Type == region.ConditionConfigured {
				reason = c.Reason
			}
		}
		if st.Configuration != nil && len(st.Configuration.Processes) == 2 && f(st, reason) {
			return st.Configuration.Processes[1]
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("not seen: %s; status %+v %+v\n%s\n%s", what, st.Conditions, st.Configuration, n.read("console.log"), n.read("var/log/regiond-node.log"))
		}
	}
}
