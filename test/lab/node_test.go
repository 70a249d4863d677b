package lab

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/namespace"
	"regiond.dev/regiond/test/lab/nodeinit"
)

// The test is the program of its lab: what starts a node runs it again with that node's command
// line, and so do the node's commands.
func TestMain(m *testing.M) {
	if a := os.Args; len(a) > 2 && a[1] == "node-command" {
		if err := nodeinit.Command(context.Background(), a[2], a[3:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if a := os.Args; len(a) == 8 && a[1] == "lab" && a[2] == "node" && a[4] == "--lab" && a[6] == "--root" {
		l, err := Open(a[7], a[5])
		if err == nil {
			err = l.EnterNode(a[3])
		}
		if err == nil {
			err = nodeinit.Run(context.Background(), []string{"/proc/1/exe", "node-command"}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// standIn is where an image has its agent.
const standIn = "/usr/lib/regiond/regiond-node"

// standInAgent writes down what it finds, and waits.
const standInAgent = `#!/bin/sh
echo "$1 pid=$$ host=$(hostname) boots=$(cat /var/lib/regiond/boots 2>/dev/null)" >> /var/log/agent.log
echo x >> /var/lib/regiond/boots
( read a < /dev/urandom; : > /dev/null; [ -c /dev/net/tun ] && [ -e /dev/ptmx ] && echo devices ) >> /var/log/agent.log 2>&1
ip -4 addr show boot0 >> /var/log/agent.log
ip link show data0 >> /var/log/agent.log
ip link add left-behind type dummy
cat /etc/machine-id /etc/hostname >> /var/log/agent.log
systemctl show --property=Id,MainPID regiond-node.service >> /var/log/agent.log 2>&1
[ -e /etc/debian_version ] && echo "sees the machine's files" >> /var/log/agent.log
sleep 1000 &
echo ready >> /var/log/agent.log
while :; do sleep 1000; done
`

// busyboxRoot is a root file system with little but a shell.
func busyboxRoot(t *testing.T) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("%v: install Debian's busybox", err)
	}
	libraries, err := exec.Command("ldd", busybox).Output() // none, if it is the static one
	if err != nil {
		libraries = nil
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "dev", "etc/systemd/system", "proc", "root", "run", "sys", "tmp", "usr/lib/regiond", "var/lib/regiond", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"bin/busybox": busybox}
	for f := range strings.FieldsSeq(string(libraries)) {
		if strings.HasPrefix(f, "/") {
			files[f] = f
		}
	}
	for to, from := range files {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, to), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, standIn), []byte(standInAgent), 0o755); err != nil {
		t.Fatal(err)
	}
	unit := "[Service]\nExecStart=" + standIn + " run\nRestart=always\n"
	if err := os.WriteFile(filepath.Join(root, "etc/systemd/system/regiond-node.service"), []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "env", "ip", "cat", "sleep", "hostname"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A namespace node sees its own root, name, devices and cables, is gone at a power cut with all that it started, and
// keeps its disk, but not its network devices, over that.
func TestNamespaceNode(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := Lab{Name: fmt.Sprintf("t%d", os.Getpid()), Root: filepath.Join(t.TempDir(), "labs"), Spec: Spec{Machines: []MachineSpec{{Name: "n1", Kind: KindNamespace}}}}
	t.Cleanup(func() {
		if err := l.Down(t.Logf); err != nil {
			t.Error(err)
		}
		if l.nodeNamespace("n1").Exists() || l.rack().Exists() {
			t.Error("a namespace is left")
		}
	})
	if err := l.writeFile(fileLab, []byte(`{"machines":[{"name":"n1","kind":"namespace"}]}`)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dirLog, "machines/n1/upper", "machines/n1/work", "machines/n1/root", "machines/n1/data"} {
		if err := os.MkdirAll(l.file(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(busyboxRoot(t), l.file("machines/n1/image")); err != nil {
		t.Fatal(err)
	}
	if err := l.network(); err != nil {
		t.Fatal(err)
	}
	power := func(action string, want region.PowerState) {
		t.Helper()
		if got, err := l.PowerNode(t.Context(), "n1", action, program); err != nil || got != want {
			t.Fatalf("power %s: %v, %v", action, got, err)
		}
	}
	power("status", region.PowerOff)
	power("on", region.PowerOn)
	first := agentLog(t, l, 1)
	for _, want := range []string{
		"run pid=", " host=n1 boots=\n", "\ndevices\n", "inet 10.99.0.11/24", "data0", l.macAddress(0, dataInterface),
		strings.ReplaceAll(l.machineUUID(0), "-", "") + "\nn1\n",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the node does not see %q:\n%s", want, first)
		}
	}
	if pid := regexp.MustCompile(`run pid=(\d+)`).FindStringSubmatch(first); pid == nil || !strings.Contains(first, "Id=regiond-node.service\nMainPID="+pid[1]+"\n") {
		t.Errorf("the agent's systemctl does not tell its own pid:\n%s", first)
	}
	if strings.Contains(first, "sees the machine's files") {
		t.Error("the node's root is this machine's")
	}
	if err := reach(l.SeedNetwork(), "10.99.0.11"); err != nil {
		t.Errorf("from the seed host: %v", err)
	}
	argv, err := l.NodeExecArgs("n1", []string{"hostname"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(argv[0], argv[1:]...).Output(); err != nil || string(out) != "n1\n" {
		t.Errorf("%v: %q, %v", argv, out, err)
	}
	processes, err := l.nodeNamespace("n1").Processes()
	if err != nil || len(processes) < 2 {
		t.Fatalf("processes %v, %v", processes, err)
	}

	power("off", region.PowerOff)
	for _, pid := range processes {
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "root", "var/log/agent.log")); err == nil {
			t.Errorf("process %d outlived the power cut", pid)
		}
	}
	power("cycle", region.PowerOn)
	second := agentLog(t, l, 2)
	if !strings.Contains(second, "boots=x\n") {
		t.Errorf("the data partition was lost:\n%s", second)
	}
	if strings.Contains(second, "File exists") {
		t.Errorf("a network device outlived the power cut:\n%s", second)
	}
	power("cycle", region.PowerOn)
	agentLog(t, l, 3)
}

// agentLog is what the stand-in wrote, once it was ready that many times.
func agentLog(t *testing.T, l Lab, boots int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(filepath.Join(l.nodeLogs("n1"), "agent.log"))
		if err == nil && strings.Count(string(b), "ready\n") == boots {
			return string(b)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(l.file("log/node-n1.log"))
			t.Fatalf("not ready %d times: %q, %v; %s", boots, b, err, log)
		case <-tick.C:
		}
	}
}

// reach an address of a namespace: a refused connection is an answer.
func reach(from namespace.Namespace, address string) error {
	c, err := from.Dial(context.Background(), "tcp", address+":9")
	if err == nil {
		return c.Close()
	}
	if strings.Contains(err.Error(), "connection refused") {
		return nil
	}
	return err
}
