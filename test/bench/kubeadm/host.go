package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/test/lab"
)

// Program is the command by which a lab starts what plays its seed host (test/lab, Lab.Up).
const Program = "lab"

// What kubeadm's host has in its data directory besides what containerd of the same configuration
// has in regiond's.
const (
	// programsLink leads to the folder of the programs.
	programsLink = "programs"
	// enteredFile is there when the host is as kubeadm expects one.
	enteredFile = "entered"
	kubeletLog  = "kubelet.log"
	// overlays hold what is written to the machine's own folders.
	overlays = "overlay"
	// bin comes first where a lab's seed host looks for commands.
	bin = "/run/bin"
)

// systemctl stands in for systemd, which a host in namespaces hasn't: it knows the one unit of
// kubeadm's packages, with the command line of their drop-in file.
const systemctl = `#!/bin/sh
case "$1" in stop|restart)
	if read -r pid < /run/kubelet.pid && kill "$pid"; then
		while kill -0 "$pid"; do sleep 0.02; done
	fi 2>/dev/null
esac
case "$1" in start|restart)
	. /var/lib/kubelet/kubeadm-flags.env
	setsid kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
		--kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS \
		>> ` + lab.SeedData + "/" + kubeletLog + ` 2>&1 < /dev/null &
	echo $! > /run/kubelet.pid
esac
`

// Serve plays the seed host of a lab: a host on which containerd runs and kubeadm can do its work.
// args are what a lab gives the program of its seed host.
func Serve(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "init" {
		if err := prepareHost(); err != nil {
			return err
		}
		node := config.Node{DataDir: lab.SeedData}
		command := node.Containerd()
		command[0] = filepath.Join(bin, command[0])
		return lab.RunInit(ctx, command)
	}
	if len(args) != 5 || args[0] != "seed" || args[1] != "--lab" || args[3] != "--root" {
		return fmt.Errorf("got arguments %q, want: seed --lab NAME --root ROOT", args)
	}
	l, err := lab.Open(args[4], args[2])
	if err != nil {
		return err
	}
	return l.EnterSeed([]string{"bench", Program, "init"})
}

// prepareHost makes this process' mount namespace, in which EnterSeed has made most folders
// private, one that kubeadm can write to: the folders that it and the kubelet want are in the data
// directory, on disk like regiond's.
func prepareHost() error {
	for _, dir := range []string{"/etc", "/usr/libexec"} {
		upper, work := filepath.Join(lab.SeedData, overlays, dir, "upper"), filepath.Join(lab.SeedData, overlays, dir, "work")
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return err
		}
		if err := unix.Mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work); err != nil {
			return fmt.Errorf("mount an overlay on %s: %w", dir, err)
		}
	}
	for from, to := range map[string]string{datadir.Kubelet.In(lab.SeedData): "/var/lib/kubelet", datadir.Etcd.In(lab.SeedData): "/var/lib/etcd"} {
		if err := errors.Join(os.MkdirAll(from, 0o700), os.MkdirAll(to, 0o700)); err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", from, to, err)
		}
	}
	programs, err1 := filepath.Glob(filepath.Join(lab.SeedData, programsLink, "*"))
	runc, err2 := filepath.Glob(datadir.Bin.In(lab.SeedData, "*", payload.Runc))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, program := range append(programs, runc...) {
		if err := os.Symlink(program, filepath.Join(bin, filepath.Base(program))); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o755); err != nil {
		return err
	}
	// A host knows its own name, for which nobody can be asked here.
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s seed\n", lab.SeedAddress)
	if err := os.WriteFile("/etc/hosts", []byte(hosts), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(lab.SeedData, enteredFile), nil, 0o644)
}
