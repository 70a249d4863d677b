package lab

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/test/lab/machine"
	"regiond.dev/regiond/test/lab/namespace"
)

// UpConfig is what Up needs besides the lab.
type UpConfig struct {
	// Program is the regiond binary.
	Program string
	// ImageDir holds the images.
	ImageDir string
	// Kernel of the node image, to try KVM with.
	Kernel string
	// Rootfs of the node image, unpacked, for namespace nodes.
	Rootfs string
	// Report is given one line per thing that was reached.
	Report func(format string, args ...any)
}

// Prerequisites of a lab that Debian's packages bring, by the file that tells.
var prerequisites = []struct{ file, pkg string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "ovmf"},
	{"nsenter", "util-linux"},
	{"nft", "nftables"},
}

// CheckPrerequisites names everything that is missing, and how to get it.
func CheckPrerequisites() error {
	var missing []string
	for _, p := range prerequisites {
		if strings.HasPrefix(p.file, "/") {
			if _, err := os.Stat(p.file); err != nil {
				missing = append(missing, p.pkg)
			}
		} else if _, err := exec.LookPath(p.file); err != nil {
			missing = append(missing, p.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the lab needs Debian packages that are missing: apt-get install --no-install-recommends %s", strings.Join(missing, " "))
	}
	if os.Geteuid() != 0 {
		return errors.New("the lab makes namespaces and cgroups: run it as root")
	}
	return nil
}

// Up brings the lab up as far as its seed host: networks, rack and regiond. It starts only what
// does not run yet, so that it can be run again after anything.
func (l Lab) Up(ctx context.Context, c UpConfig) error {
	if err := CheckPrerequisites(); err != nil {
		return err
	}
	// Before the first effect: `lab down` finds by this file what there is to remove.
	spec, err := json.MarshalIndent(l.Spec, "", "  ")
	if err != nil {
		return err
	}
	if err := l.writeFile(fileLab, spec); err != nil {
		return err
	}
	if err := l.writeRegion(c.ImageDir); err != nil {
		return err
	}
	for _, d := range []string{dirSeed, dirLog} {
		if err := os.MkdirAll(l.file(d), 0o700); err != nil {
			return err
		}
	}
	if err := l.network(); err != nil {
		return err
	}
	c.Report("networks: provisioning %s, BMC %s", provisioning, bmcNetwork)
	started, err := l.start(ctx, "seed", l.SeedNetwork(), &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}, []string{c.Program, "lab", "seed", "--lab", l.Name, "--root", l.Root})
	if err != nil {
		return err
	}
	if started {
		c.Report("seed host: regiond run -f %s (log %s)", l.file(fileRegion), l.file(dirLog+"/seed.log"))
	}
	if !l.Spec.HasVMs() {
		return ctx.Err()
	}
	command := []string{c.Program, "lab", "hardware", "--lab", l.Name, "--root", l.Root}
	accelerator := "emulated (TCG)"
	if running, err := l.process("hardware"); err == nil && running == 0 && machine.KVMWorks(ctx, c.Kernel) {
		accelerator = "on KVM"
		command = append(command, "--kvm")
	}
	if started, err = l.start(ctx, "hardware", l.rack(), nil, command); err != nil {
		return err
	}
	if started {
		c.Report("rack: %d virtual server(s), %s, powered off", l.Spec.count(true), accelerator)
	}
	return ctx.Err()
}

// network lays the lab's cables.
func (l Lab) network() error {
	seed, hw := l.SeedNetwork(), l.rack()
	for _, n := range []namespace.Namespace{seed, hw} {
		if err := n.Create(); err != nil {
			return err
		}
	}
	var bmcs []netip.Prefix
	for i, m := range l.Spec.Machines {
		if m.VM() {
			bmcs = append(bmcs, netip.PrefixFrom(bmcAddress(i), bmcNetwork.Bits()))
		}
	}
	if err := hw.Bridge(provisioningBridge); err != nil {
		return err
	}
	if err := hw.Bridge("br-bmc", bmcs...); err != nil {
		return err
	}
	// The data network is a switch that passes VLAN tags as they are (IEEE 802.1Q), and nobody has an address in it.
	if err := hw.Bridge(dataBridge); err != nil {
		return err
	}
	for _, m := range l.Spec.Machines {
		if !m.VM() {
			continue // its cables are laid when it starts
		}
		for nic, bridge := range map[string]string{bootInterface: provisioningBridge, dataInterface: dataBridge} {
			if err := hw.Tap(tapOf(m.Name, nic), bridge); err != nil {
				return err
			}
		}
	}
	for _, c := range []struct {
		name, bridge string
		address      netip.Prefix
	}{
		{"prov0", provisioningBridge, netip.PrefixFrom(SeedAddress, provisioning.Bits())},
		{"bmc0", "br-bmc", netip.PrefixFrom(seedBMC, bmcNetwork.Bits())},
	} {
		if err := seed.Connect(namespace.Cable{Name: c.name, Addresses: []netip.Prefix{c.address}}, hw, c.bridge); err != nil {
			return err
		}
	}
	return seed.DefaultRoute("prov0")
}

// start a process of the lab in a network namespace, detached, unless it runs. One that was killed
// is waited for first: what it leaves while it ends, its successor would meet.
func (l Lab) start(ctx context.Context, name string, ns namespace.Namespace, attr *syscall.SysProcAttr, command []string) (started bool, err error) {
	if err := l.awaitEnd(ctx, name); err != nil {
		return false, err
	}
	pid, err := l.process(name)
	if err != nil || pid != 0 {
		return false, err
	}
	log, err := os.OpenFile(l.file(filepath.Join(dirLog, name+".log")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setsid = true
	cmd.SysProcAttr = attr
	if err := ns.Do(cmd.Start); err != nil {
		return false, fmt.Errorf("start %s: %w", name, err)
	}
	if err := l.recordProcess(name, cmd.Process.Pid); err != nil {
		return false, err
	}
	return true, cmd.Process.Release()
}

// writeRegion writes the lab's region.yaml and the credentials that it refers to.
func (l Lab) writeRegion(imageDir string) error {
	if _, err := os.Stat(l.file(fileCredentials)); errors.Is(err, fs.ErrNotExist) {
		b, err := yaml.Marshal(credentials{Username: "admin", Password: rand.Text()[:16]})
		if err != nil {
			return err
		}
		if err := l.writeFile(fileCredentials, b); err != nil {
			return err
		}
	}
	b, err := yaml.Marshal(l.region(imageDir))
	if err != nil {
		return err
	}
	return l.writeFile(fileRegion, b)
}

// Down ends every process of the lab and removes everything that it made.
func (l Lab) Down(report func(format string, args ...any)) error {
	if err := CheckName(l.Name); err != nil {
		return err
	}
	_, err := os.Stat(l.dir())
	there := err == nil || l.SeedNetwork().Exists() || l.rack().Exists()
	ours := []namespace.Namespace{l.SeedNetwork(), l.rack()}
	processes := []string{"seed", "hardware"}
	for _, m := range l.Spec.Machines {
		if !m.VM() {
			ours, processes = append(ours, l.nodeNamespace(m.Name)), append(processes, nodeProcess(m.Name))
		}
	}
	for _, name := range processes {
		pid, err := l.process(name)
		if err != nil {
			return err
		}
		if pid == 0 {
			continue
		}
		// The first process of a PID namespace takes all others with it.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end %s (pid %d): %w", name, pid, err)
		}
		report("%s: ended", name)
	}
	for _, n := range ours {
		if err := n.Delete(); err != nil {
			return err
		}
	}
	if err := l.removeCgroups(); err != nil {
		return err
	}
	if err := os.RemoveAll(l.dir()); err != nil {
		return err
	}
	// The root is removed with its last lab.
	if err := os.Remove(l.Root); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	if !there {
		report("lab %s: it does not exist", l.Name)
		return nil
	}
	report("lab %s: removed", l.Name)
	return nil
}
