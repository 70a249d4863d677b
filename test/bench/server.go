package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/bench/proc"
	"regiond.dev/regiond/test/lab"
)

// Limits of issues 2 and 3, "What it must reach".
const (
	limitReady     = 12.0  // seconds from start to node Ready
	limitPSS       = 700.0 // MB of all processes of the control plane
	limitCPU       = 12.0  // per cent of a core, idle
	limitInstall   = 120.0 // seconds from power-on to image written, UEFI, emulated
	limitBinary    = 250.0 // MB
	limitAgent     = 30.0  // MB
	limitInitramfs = 10.0  // MB
	idleWindow     = 30 * time.Second
)

// server measures a region with one server and without OpenStack.
func server(ctx context.Context, c config) (figures []figure, netboot string, err error) {
	l := lab.Lab{Name: fmt.Sprintf("bench-%d", os.Getpid()), Root: lab.DefaultRoot, Spec: lab.Spec{Machines: []lab.MachineSpec{{Name: "node1"}}}}
	defer func() { err = errors.Join(err, l.Down(func(string, ...any) {})) }()
	out, upErr := up(ctx, c, l)
	figures, err = measure(measurement{figure{name: "control plane: start to node Ready", limit: limitReady, unit: "s"},
		func() (float64, error) { return stageTimes(out, "seed host:", string(lab.StageControlPlane)) }})
	if err = errors.Join(err, upErr); err != nil {
		return figures, "", err // of a lab that is not up nothing else can be measured
	}
	var idle proc.Usage
	more, err := measure(
		measurement{figure{name: "install, UEFI: power-on to image written", limit: limitInstall, unit: "s"},
			func() (float64, error) { return installTime(ctx, l) }},
		measurement{figure{name: "control plane: memory of all processes (PSS)", limit: limitPSS, unit: "MB"},
			func() (_ float64, err error) { idle, err = idleUsage(ctx, c, l); return idle.PSS / megabyte, err }},
		measurement{figure{name: "control plane: idle processor time", limit: limitCPU, unit: "% of a core"},
			func() (float64, error) {
				if idle == (proc.Usage{}) {
					return 0, errors.New("what the processes use was not measured")
				}
				return idle.CPU, nil
			}},
	)
	tftp, http, servedErr := served(ctx, l)
	if servedErr == nil {
		netboot = fmt.Sprintf("netboot: %.1f MB over TFTP (the loader), %.1f MB over HTTP", tftp/megabyte, http/megabyte)
	}
	return append(figures, more...), netboot, errors.Join(err, servedErr)
}

// idleUsage is what the control plane alone uses: the virtual server is off.
func idleUsage(ctx context.Context, c config, l lab.Lab) (u proc.Usage, err error) {
	if out, err := exec.CommandContext(ctx, c.regiond, "lab", "power", "--lab", l.Name, l.Spec.Machines[0].Name, "off").CombinedOutput(); err != nil {
		return u, fmt.Errorf("power off: %w: %s", err, out)
	}
	return proc.Measure(ctx, l.SeedNetwork().Processes, idleWindow)
}

// up runs `lab up` with the lab's specification and returns what it printed.
func up(ctx context.Context, c config, l lab.Lab) (string, error) {
	spec, err := yaml.Marshal(lab.Config{APIVersion: region.GroupVersion.String(), Kind: "Lab", Spec: l.Spec})
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "regiond-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "lab.yaml")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		return "", err
	}
	var out bytes.Buffer
	up := exec.CommandContext(ctx, c.regiond, "lab", "up", "--lab", l.Name, "--image-dir", c.imageDir, "--config", file)
	up.Stdout, up.Stderr = io.MultiWriter(&out, os.Stderr), os.Stderr
	err = up.Run()
	return out.String(), err
}

// stageTime is when `lab up` printed a line, in seconds.
func stageTime(out, stage string) (float64, error) {
	for line := range strings.Lines(out) {
		if t, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "s] "); ok && strings.Contains(rest, stage) {
			return strconv.ParseFloat(strings.TrimSpace(t), 64)
		}
	}
	return 0, fmt.Errorf("lab up printed no line with %q", stage)
}

// stageTimes is the time from one line of `lab up` to another, in seconds.
func stageTimes(out, from, to string) (float64, error) {
	start, err := stageTime(out, from)
	if err != nil {
		return 0, err
	}
	end, err := stageTime(out, to)
	return end - start, err
}

// installTime from the request of the network boot, just before power-on, to the installer's last
// report.
func installTime(ctx context.Context, l lab.Lab) (float64, error) {
	c, err := l.Client()
	if err != nil {
		return 0, err
	}
	f, err := lab.Observe(ctx, c)
	if err != nil {
		return 0, err
	}
	for _, s := range f.Servers {
		if n, i := s.Status.Netboot, s.Status.Installation; n != nil && n.Requested != nil && i != nil && i.Finished != nil {
			return i.Finished.Sub(n.Requested.Time).Seconds(), nil
		}
	}
	return 0, errors.New("no server has an installation with a beginning and an end in its status")
}

// served bytes by TFTP and by HTTP, from regiond's metrics.
func served(ctx context.Context, l lab.Lab) (tftp, http_ float64, err error) {
	client := http.Client{Transport: &http.Transport{DialContext: l.SeedNetwork().Dial}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9440/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return 0, 0, err
	}
	sum := func(name string) (s float64, err error) {
		f, ok := families[name]
		if !ok {
			return 0, fmt.Errorf("no metric %s", name)
		}
		for _, m := range f.Metric {
			s += m.GetCounter().GetValue()
		}
		return s, nil
	}
	t, err1 := sum("regiond_tftp_sent_bytes_total")
	h, err2 := sum("regiond_netboot_http_sent_bytes_total")
	return t, h, errors.Join(err1, err2)
}

// sizes of what is shipped.
func sizes(_ context.Context, c config) (figures []figure, _ string, err error) {
	size := func(file string) func() (float64, error) {
		return func() (float64, error) {
			st, err := os.Stat(file)
			if err != nil {
				return 0, err
			}
			return float64(st.Size()) / megabyte, nil
		}
	}
	figures, err = measure(
		measurement{figure{name: "regiond with all that it carries", limit: limitBinary, unit: "MB"}, size(c.regiond)},
		measurement{figure{name: "node agent", limit: limitAgent, unit: "MB"},
			func() (float64, error) { return unpacked("bootstrap/payload/files/regiond-node.zst") }},
		measurement{figure{name: "initramfs", limit: limitInitramfs, unit: "MB"}, size(filepath.Join(c.imageDir, "node", "current", "initramfs"))},
	)
	return figures, "", err
}

func unpacked(file string) (float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return 0, err
	}
	defer z.Close()
	n, err := io.Copy(io.Discard, z)
	return float64(n) / megabyte, err
}
