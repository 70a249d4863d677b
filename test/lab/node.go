package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	hostidentity "regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/test/lab/namespace"
)

// Files of a namespace node, below its folder in machines.
const (
	nodeImage = "image" // a link to the root file system that it was made of
	nodeUpper = "upper" // what was written to its root file system
	nodeWork  = "work"  // of overlayfs
	nodeRoot  = "root"  // where the two are joined, in the node's own mount namespace
	nodeData  = "data"  // its data partition, with the identity
)

func (l Lab) machineDir(name string) string { return filepath.Join(l.dir(), "machines", name) }

// nodeNamespace is the network namespace of a namespace node. A lab's name has no dot.
func (l Lab) nodeNamespace(name string) namespace.Namespace {
	return namespace.Namespace{Name: "rl-" + l.Name + "." + name}
}

// nodeProcess is the name of its first process, for its pid and its log.
func nodeProcess(name string) string { return "node-" + name }

// nodeLogs is where a namespace node's agent and services write to: it is the node's own /var/log.
func (l Lab) nodeLogs(name string) string {
	return filepath.Join(l.machineDir(name), nodeUpper, "var/log")
}

// count of the machines of a kind.
func (s Spec) count(vm bool) (n int) {
	for _, m := range s.Machines {
		if m.VM() == vm {
			n++
		}
	}
	return n
}

// HasVMs tells whether some of the machines are virtual servers.
func (s Spec) HasVMs() bool { return s.count(true) > 0 }

// HasNamespaces tells whether some of the machines are namespaces.
func (s Spec) HasNamespaces() bool { return s.count(false) > 0 }

// StartNodes makes what is missing of the lab's namespace nodes and starts those that don't run. Each is enrolled by
// the seed host, as a host that was installed by other means would be.
func (l Lab) StartNodes(ctx context.Context, c UpConfig) error {
	for i, m := range l.Spec.Machines {
		if m.VM() {
			continue
		}
		if err := l.furnishNode(ctx, m.Name, c); err != nil {
			return fmt.Errorf("node %s: %w", m.Name, err)
		}
		started, err := l.startNode(ctx, i, c.Program)
		if err != nil {
			return fmt.Errorf("node %s: %w", m.Name, err)
		}
		if started {
			c.Report("%s: namespace node starts (logs in %s)", m.Name, l.nodeLogs(m.Name))
		}
	}
	return nil
}

// furnishNode makes the folder of a node, once. Its identity is written last.
func (l Lab) furnishNode(ctx context.Context, name string, c UpConfig) error {
	dir := l.machineDir(name)
	if _, err := os.Stat(filepath.Join(dir, nodeData, hostidentity.File)); err == nil {
		return nil
	}
	if c.Rootfs == "" {
		return errors.New("there is no root file system to start it from")
	}
	for _, d := range []string{nodeUpper, nodeWork, nodeRoot, nodeData} {
		// The upper folder's mode is that of the node's root, which its services pass.
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, nodeData), 0o700); err != nil {
		return err
	}
	link := filepath.Join(dir, nodeImage)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(c.Rootfs, link); err != nil {
		return err
	}
	return l.enroll(ctx, name)
}

// enrollRetry is how often the seed host is asked for an identity while it isn't ready to give one.
const enrollRetry = time.Second

// enroll has the seed host write the identity of a node. An identity that was written and not used is void then.
func (l Lab) enroll(ctx context.Context, name string) error {
	data := filepath.Join("machines", name, nodeData)
	args, err := l.ExecArgs([]string{"regiond", "host", "enroll", name, "--profile", name, "-f", SeedRegionFile,
		"--identity", filepath.Join(seedFiles, data, hostidentity.File+".part")})
	if err != nil {
		return err
	}
	for {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		if err == nil {
			return os.Rename(l.file(filepath.Join(data, hostidentity.File+".part")), l.file(filepath.Join(data, hostidentity.File)))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("regiond host enroll %s: %w: %s", name, err, strings.TrimSpace(string(out)))
		case <-time.After(enrollRetry):
		}
	}
}

// startNode starts the i-th machine, a namespace, unless it runs. A start is a boot: what the network of an earlier
// one held (devices, rules, addresses) is gone.
func (l Lab) startNode(ctx context.Context, i int, program string) (started bool, err error) {
	name := l.Spec.Machines[i].Name
	if err := l.awaitEnd(ctx, nodeProcess(name)); err != nil {
		return false, err
	}
	if pid, err := l.process(nodeProcess(name)); err != nil || pid != 0 {
		return false, err
	}
	ns := l.nodeNamespace(name)
	if err := ns.Delete(); err != nil {
		return false, err
	}
	for _, nic := range []string{bootInterface, dataInterface} {
		// The kernel removes a network namespace some time after its last user has left it.
		if err := l.rack().Unplug(tapOf(name, nic)); err != nil {
			return false, err
		}
	}
	if err := l.connectNode(i); err != nil {
		return false, err
	}
	return l.start(ctx, nodeProcess(name), ns, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}, []string{program, "lab", "node", name, "--lab", l.Name, "--root", l.Root})
}

// connectNode lays the cables of a namespace node, which is given its address by them: nobody in it speaks DHCP.
func (l Lab) connectNode(i int) error {
	name := l.Spec.Machines[i].Name
	ns := l.nodeNamespace(name)
	if err := ns.Create(); err != nil {
		return err
	}
	err := ns.Connect(namespace.Cable{
		Name: bootInterface, Port: tapOf(name, bootInterface), MACAddress: l.macAddress(i, bootInterface),
		Addresses: []netip.Prefix{netip.PrefixFrom(nodeAddress(i), provisioning.Bits())},
	}, l.rack(), provisioningBridge)
	if err != nil {
		return err
	}
	err = ns.Connect(namespace.Cable{
		Name: dataInterface, Port: tapOf(name, dataInterface), MACAddress: l.macAddress(i, dataInterface), Checksums: true,
	}, l.rack(), dataBridge)
	if err != nil {
		return err
	}
	return ns.DefaultRoute(bootInterface)
}

// endTimeout is ample for the kernel to end all processes of a PID namespace.
const endTimeout = 20 * time.Second

// stopNode cuts a node's power: the first process of a PID namespace takes all others with it.
func (l Lab) stopNode(name string) error {
	pid, err := l.process(nodeProcess(name))
	if err != nil || pid == 0 {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end node %s (pid %d): %w", name, pid, err)
	}
	deadline := time.Now().Add(endTimeout)
	for {
		if pid, err := l.process(nodeProcess(name)); err != nil || pid == 0 {
			return errors.Join(err, l.nodeNamespace(name).Delete())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %s (pid %d) does not end within %s", name, pid, endTimeout)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
