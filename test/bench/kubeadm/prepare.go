package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/test/lab"
)

// take what regiond has put on its host and kubeadm needs on one like it, unless it was taken
// before.
func (b Bench) take(seed string) error {
	if _, err := os.Stat(datadir.Bin.In(b.Dir)); err == nil {
		return nil
	}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "resolv.conf"} {
		if err := copyFile(datadir.Config.In(seed, name), datadir.Config.In(b.Dir, name)); err != nil {
			return err
		}
	}
	networks, err := filepath.Glob(datadir.CNI.In(seed, "*.conflist"))
	if err != nil {
		return err
	}
	for _, file := range networks {
		if err := copyFile(file, datadir.CNI.In(b.Dir, filepath.Base(file))); err != nil {
			return err
		}
	}
	return os.CopyFS(datadir.Bin.In(b.Dir), os.DirFS(datadir.Bin.In(seed)))
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644))
}

func configFile(dataDir string) string { return datadir.Config.In(dataDir, "kubeadm.yaml") }

// prepare a host to where kubeadm can begin: containerd runs and has the images.
func (b Bench) prepare(ctx context.Context, l lab.Lab) error {
	archive := filepath.Join(b.Dir, "images.tar")
	if _, err := os.Stat(archive); err != nil {
		if err := b.prepareOnce(ctx, archive); err != nil {
			return err
		}
	}
	for _, name := range []datadir.Name{datadir.Bin, datadir.CNI, datadir.Config} {
		if err := os.CopyFS(name.In(l.SeedDir()), os.DirFS(name.In(b.Dir))); err != nil {
			return err
		}
	}
	err := errors.Join(os.Symlink(b.Programs, filepath.Join(l.SeedDir(), programsLink)),
		// The one without roles yet: the other's are given to it late in kubeadm's way.
		os.Symlink(filepath.Join(overlays, "etc", "upper", "kubernetes", "super-admin.conf"), datadir.AdminKubeconfig.In(l.SeedDir())))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := l.Up(ctx, lab.UpConfig{Program: self, ImageDir: b.ImageDir, Report: silent}); err != nil {
		return err
	}
	_, err = until(ctx, func(context.Context) error { _, err := os.Stat(filepath.Join(l.SeedDir(), enteredFile)); return err }, nil)
	if err != nil {
		return err
	}
	own, err := filepath.Glob(datadir.Bin.In(l.SeedDir(), "*", payload.Images))
	if err != nil || len(own) != 1 {
		return fmt.Errorf("the payload's images: got %v and %w, want one file", own, err)
	}
	carried, err := filepath.Rel(l.SeedDir(), own[0])
	if err != nil {
		return err
	}
	for _, file := range []string{archive, filepath.Join(lab.SeedData, carried)} {
		// containerd takes a moment until it answers.
		if _, err := until(ctx, func(ctx context.Context) error { return b.importImages(ctx, l, file) }, nil); err != nil {
			return err
		}
	}
	return nil
}

// prepareOnce makes what is the same in all runs.
func (b Bench) prepareOnce(ctx context.Context, archive string) error {
	kubeadm := filepath.Join(b.Programs, "kubeadm")
	version, err := exec.CommandContext(ctx, kubeadm, "version", "--output=short").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", kubeadm, err)
	}
	text, err := configuration(b.Dir, strings.TrimSpace(string(version)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(configFile(b.Dir), text, 0o644); err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--config", configFile(b.Dir)).Output()
	if err != nil {
		return fmt.Errorf("%s config images list: %w", kubeadm, err)
	}
	return writeImages(strings.Fields(string(list)), b.Programs, archive)
}

func (b Bench) importImages(ctx context.Context, l lab.Lab, file string) error {
	c, err := b.enter(ctx, l, b.Regiond, "ctr", "--address", config.ContainerdSocket(lab.SeedData), "--namespace", "k8s.io", "images", "import", file)
	if err != nil {
		return err
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s into containerd: %w: %s", file, err, out)
	}
	return nil
}

// enter is a command on a lab's seed host. It has none of this machine's proxies in its
// environment.
func (b Bench) enter(ctx context.Context, l lab.Lab, command ...string) (*exec.Cmd, error) {
	args, err := l.ExecArgs(command)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = []string{"HOME=/root"}
	return c, nil
}
