package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"regiond.dev/regiond/images/debian"
	"regiond.dev/regiond/test/bench/kubeadm"
	"regiond.dev/regiond/test/bench/pull"
	"regiond.dev/regiond/test/bench/render"
)

// Limits of what regiond takes beside the programs that others use for the same, in per cent of
// their time.
const (
	limitRender = 5.0 // of ansible's: 20 times as fast
	limitGrowth = 125.0
	limitPull   = 100.0
	limitBuild  = 200.0 // of mmdebstrap's, which only installs the packages
	// of kubeadm's control plane: what regiond carries besides may not cost more than one process a
	// component does
	limitKubeadm = 100.0
)

// controlPlane beside the same programs in kubeadm's way.
func controlPlane(ctx context.Context, c config) (figures []figure, text string, err error) {
	if c.kubeadm == "" {
		return nil, "", errors.New("build kubeadm's programs and say where they are: -kubeadm=$(scripts/build-kubeadm)")
	}
	// Not below /tmp, which may be a small tmpfs: it takes the images of all programs.
	dir, err := os.MkdirTemp("/var/tmp", "regiond-bench-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if c.regiond, err = filepath.Abs(c.regiond); err != nil {
		return nil, "", err
	}
	b := kubeadm.Bench{Regiond: c.regiond, Programs: c.kubeadm, ImageDir: c.imageDir, Dir: dir}
	var texts []string
	share := func(p kubeadm.Pair, err error, unit float64, format string) (float64, error) {
		if err != nil {
			return 0, err
		}
		texts = append(texts, fmt.Sprintf(format, p.Own/unit, p.Kubeadm/unit))
		return 100 * p.Share(), nil
	}
	var cpu kubeadm.Pair
	figures, err = measure(
		measurement{figure{name: "control plane: share of kubeadm's time to Ready", limit: limitKubeadm, unit: "%"},
			func() (float64, error) {
				p, err := b.Start(ctx)
				return share(p, err, 1, "Ready in %.1f s, kubeadm's in %.1f s")
			}},
		measurement{figure{name: "control plane: share of kubeadm's memory (PSS)", limit: limitKubeadm, unit: "%"},
			func() (_ float64, err error) {
				var pss kubeadm.Pair
				pss, cpu, err = b.Idle(ctx)
				return share(pss, err, megabyte, "%.0f MB of memory, kubeadm's %.0f MB")
			}},
		measurement{figure{name: "control plane: share of kubeadm's idle processor time", limit: limitKubeadm, unit: "%"},
			func() (float64, error) {
				var err error
				if cpu == (kubeadm.Pair{}) {
					err = errors.New("what the processes use was not measured")
				}
				return share(cpu, err, 1, "%.1f %% of a core, kubeadm's %.1f %%")
			}},
		measurement{figure{name: "control plane: share of kubeadm's size on disk", limit: limitKubeadm, unit: "%"},
			func() (float64, error) {
				p, err := b.Disk()
				return share(p, err, megabyte, "%.0f MB on disk, kubeadm's %.0f MB")
			}},
	)
	return figures, "control plane: " + strings.Join(texts, "; "), err
}

// rendering of the configuration of compute hosts, beside Debian's ansible.
func rendering(ctx context.Context, _ config) (figures []figure, speed string, err error) {
	dir, err := os.MkdirTemp("", "regiond-bench-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	const nodes, ansibleNodes = 1000, 8
	f, err := render.Measure(ctx, dir, nodes, ansibleNodes)
	if err != nil {
		return nil, "", fmt.Errorf("rendering: %w", err)
	}
	speed = fmt.Sprintf("rendering: %d files of %d nodes in %.1f s, ansible %d nodes in %.1f s: %.0f times as fast a node", f.Files, f.Nodes,
		f.Elapsed.Seconds(), f.AnsibleNodes, f.AnsibleElapsed.Seconds(), f.Ratio())
	return measured(
		figure{name: "rendering 1,000 nodes: share of ansible's time", value: 100 / f.Ratio(), limit: limitRender, unit: "%"},
		figure{name: "rendering 1,000 nodes: memory after all / after a tenth", value: 100 * f.Growth(), limit: limitGrowth, unit: "%"},
	), speed, nil
}

// pulling component images, beside Debian's build of distribution.
func pulling(ctx context.Context, c config) (figures []figure, speed string, err error) {
	dir, err := os.MkdirTemp("", "regiond-bench-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := pull.Measure(ctx, c.distribution, c.imageDir, dir)
	if err != nil {
		return nil, "", err
	}
	speed = fmt.Sprintf("registry: %d hosts pull %.0f MB in %.1f s, from distribution in %.1f s", f.Hosts, float64(f.Bytes)/megabyte,
		f.Own.Seconds(), f.Distribution.Seconds())
	return measured(figure{name: "registry: share of distribution's time to pull", value: 100 * f.Share(), limit: limitPull, unit: "%"}), speed, nil
}

// building the node image in an empty folder, beside mmdebstrap alone with the same packages. Both
// fetch them from the same mirror.
func building(ctx context.Context, c config) (figures []figure, speed string, err error) {
	dir, err := os.MkdirTemp("", "regiond-bench-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	list, err := os.ReadFile("images/node/packages")
	if err != nil {
		return nil, "", err
	}
	var packages []string
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			packages = append(packages, line)
		}
	}
	mmdebstrap, err := timed(ctx, "mmdebstrap", "--mode=root", "--variant=essential", "--architectures=amd64",
		`--aptopt=Apt::Install-Recommends "false"`, "--dpkgopt=force-unsafe-io", "--include="+strings.Join(packages, ","),
		"--keyring="+debian.Keyring, "trixie", filepath.Join(dir, "mmdebstrap.tar.zst"))
	if err != nil {
		return nil, "", err
	}
	own, err := timed(ctx, c.regiond, "image", "build", "--image-dir", filepath.Join(dir, "images"))
	if err != nil {
		return nil, "", err
	}
	speed = fmt.Sprintf("image: node image built in %.0f s, its packages installed by mmdebstrap alone in %.0f s", own.Seconds(), mmdebstrap.Seconds())
	share := 100 * own.Seconds() / mmdebstrap.Seconds()
	return measured(figure{name: "node image: share of mmdebstrap's time alone", value: share, limit: limitBuild, unit: "%"}), speed, nil
}

// timed runs a program and returns how long it took.
func timed(ctx context.Context, program string, args ...string) (time.Duration, error) {
	var said bytes.Buffer
	c := exec.CommandContext(ctx, program, args...)
	c.Stdout, c.Stderr = &said, &said
	started := time.Now()
	if err := c.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", program, err, said.String())
	}
	return time.Since(started), nil
}
