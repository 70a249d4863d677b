//go:build integration

package configgen

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/images"
	"regiond.dev/regiond/region"
)

var imageDir = flag.String("images", region.DefaultImagesDir, "folder of images, with a node image in it")

// debianHost is a host with the packages of the node image, as Debian installs them, in its own
// namespaces: its systemd is process 1, and its network has a loopback and the interface of the
// physical network.
type debianHost struct {
	t    *testing.T
	dir  string
	init *exec.Cmd
	// enter is the prefix of commands that run on the host.
	enter []string
}

// enclose puts this shell into its own control group, which a systemd inside sees as the whole
// tree. $1 is the root.
const enclose = `set -e
group=/sys/fs/cgroup/regiond-playbook; [ ! -d /sys/fs/cgroup/systemd ] || group=/sys/fs/cgroup/systemd/regiond-playbook
mkdir -p $group; echo $$ > $group/cgroup.procs
exec unshare --net --mount --pid --uts --ipc --cgroup --fork --kill-child sh -c "$BOOT" sh "$1"`

const boot = `set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"; mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"; mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/net" "$root/dev/pts" "$root/dev/shm"
node() { mknod -m 666 "$root/dev/$1" c $2 $3; }
node null 1 3; node zero 1 5; node full 1 7; node random 1 8; node urandom 1 9; node tty 5 0; node net/tun 10 200
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
if [ -d /sys/fs/cgroup/systemd ]; then
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"; mkdir "$root/sys/fs/cgroup/systemd"
	mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
else
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
ip link set lo up; ip link add data0 type veth peer name switch0
exec chroot "$root" /lib/systemd/systemd --system --unit=multi-user.target --show-status=0`

// deviceUnits of systemd manage the devices of this test's machine; the network is created above.
var deviceUnits = []string{"systemd-udevd.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-udev-trigger.service",
	"systemd-networkd.service", "systemd-networkd-wait-online.service", "systemd-resolved.service", "systemd-timesyncd.service"}

func bootDebianHost(t *testing.T) *debianHost {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test creates namespaces; run it as root")
	}
	archive, err := images.Rootfs(*imageDir)
	if err != nil {
		t.Fatal(err)
	}
	h := &debianHost{t: t, dir: t.TempDir()}
	if err := os.Chmod(h.dir, 0o755); err != nil { // services traverse the root
		t.Fatal(err)
	}
	h.command("tar", "--zstd", "-C", h.dir, "-xf", archive)
	for _, unit := range deviceUnits {
		link := filepath.Join(h.dir, "etc/systemd/system", unit)
		if err := os.Symlink("/dev/null", link); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "console.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.init = exec.Command("sh", "-c", enclose, "sh", h.dir)
	h.init.Env = append(os.Environ(), "BOOT="+boot, "container=regiond-test")
	h.init.Stdout, h.init.Stderr = log, log
	if err := h.init.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.init.Process.Kill() // --kill-child also kills process 1, and with it the namespaces
		_ = h.init.Wait()         // killed
		for _, group := range []string{"/sys/fs/cgroup/systemd/regiond-playbook", "/sys/fs/cgroup/regiond-playbook"} {
			_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run() // find is always installed
		}
	})
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		out, err := exec.Command("pgrep", "-P", strconv.Itoa(h.init.Process.Pid)).Output()
		if err == nil {
			h.enter = []string{"nsenter", "--target", strings.TrimSpace(string(out)), "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd=/"}
			return h
		}
		if time.Now().After(deadline) {
			t.Fatalf("the host has no process after a minute: %v", err)
		}
	}
}

func (h *debianHost) command(name string, args ...string) string {
	h.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (h *debianHost) run(args ...string) string {
	h.t.Helper()
	enter := slices.Concat(h.enter, args)
	return h.command(enter[0], enter[1:]...)
}

// await runs a command until it succeeds.
func (h *debianHost) await(within time.Duration, args ...string) {
	h.t.Helper()
	enter := slices.Concat(h.enter, args)
	for deadline := time.Now().Add(within); ; <-time.After(100 * time.Millisecond) {
		out, err := exec.Command(enter[0], enter[1:]...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: %v after %s\n%s", strings.Join(args, " "), err, within, out)
		}
	}
}

// property returns a property of a unit.
func (h *debianHost) property(unit, name string) string {
	h.t.Helper()
	return strings.TrimSpace(h.run("systemctl", "show", unit, "--property", name, "--value"))
}

// playbook runs Debian's ansible-playbook over SSH, with an SSH client that enters the namespaces
// instead.
func (h *debianHost) playbook(dir string, args ...string) (recap string) {
	h.t.Helper()
	client := filepath.Join(h.t.TempDir(), "ssh")
	if err := os.WriteFile(client, []byte("#!/bin/bash\nexec "+strings.Join(h.enter, " ")+" sh -c \"${!#}\"\n"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("ansible-playbook", append([]string{"-i", "inventory.yaml", "playbook.yaml"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+h.t.TempDir(), "ANSIBLE_NOCOWS=1", "ANSIBLE_PIPELINING=1", "ANSIBLE_SSH_EXECUTABLE="+client,
		"ANSIBLE_SSH_TRANSFER_METHOD=piped", "ANSIBLE_INTERPRETER_PYTHON=/usr/bin/python3")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("ansible-playbook: %v\n%s", err, out)
	}
	_, recap, _ = strings.Cut(string(out), "PLAY RECAP")
	return recap
}

// Ansible configures a Debian host so that all services of a compute host run. A second run changes
// nothing, and a run after a file changed restarts only the reader of that file.
func TestPlaybookStartsServices(t *testing.T) {
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	h := bootDebianHost(t)
	// Services that Debian starts fail, some permanently: they have no configuration yet.
	h.await(3*time.Minute, "sh", "-c", "case $(systemctl is-system-running) in running|degraded) ;; *) exit 1 ;; esac")
	c := realCluster(t, s, region.ReleaseEpoxy)
	c.Declaration.Address = "127.0.0.1"
	render := func(dir, values string) {
		t.Helper()
		c.Declaration.Values = raw(values)
		folder, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Ansible(c, []Node{node1}, folder.Write), folder.Clean(), folder.Close()); err != nil {
			t.Fatal(err)
		}
	}
	// This machine's kernel may lack KVM, Open vSwitch's datapath, and the features by which libvirt
	// isolates guests.
	const values = `{"nova": {"virt_type": "qemu", "cpu_mode": "custom", "cpu_models": ["qemu64"], "report_interval": REPORT},
		"openvswitch": {"datapath_type": "netdev"},
		"libvirt": {"security_driver": "none", "namespaces": false, "cgroups": false, "max_processes": 0, "max_files": 0}}`
	dir := t.TempDir()
	render(dir, strings.ReplaceAll(values, "REPORT", "10"))
	h.playbook(dir)
	began := map[string]string{}
	for _, service := range s.services {
		unit := service.Name
		if state, enabled := h.property(unit, "ActiveState"), h.property(unit, "UnitFileState"); state != "active" || enabled != "enabled" {
			t.Errorf("%s is %s and %s, want active and enabled\n%s", unit, state, enabled, h.run("journalctl", "--no-pager", "--unit", unit))
		}
		if path := h.property(unit, "FragmentPath"); path != "/etc/systemd/system/"+unit {
			t.Errorf("%s: got the unit file %s, want that of the playbook", unit, path)
		}
		began[unit] = h.property(unit, "ActiveEnterTimestampMonotonic")
	}
	h.run("virsh", "--connect", "qemu:///system", "version")
	h.run("ovs-vsctl", "br-exists", "br-physnet1")

	if recap := h.playbook(dir); !strings.Contains(recap, "changed=0 ") {
		t.Errorf("a second run changed something:\n%s", recap)
	}

	render(dir, strings.ReplaceAll(values, "REPORT", "11"))
	h.playbook(dir)
	for unit, at := range began {
		if restarted := h.property(unit, "ActiveEnterTimestampMonotonic") != at; restarted != (unit == "nova-compute.service") {
			t.Errorf("nova.conf changed: %s was restarted: %t", unit, restarted)
		}
	}
}
