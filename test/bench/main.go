// Command bench measures regiond in a lab of its own and prints each figure beside its limit.
// Times are of this machine; the ratios are what to compare.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/bench/pull"
	"regiond.dev/regiond/test/lab"
	"regiond.dev/regiond/test/lab/namespace"
)

// Limits of issues 2 and 3, "What it must reach"; those of OpenStack are in openstack.go.
const (
	limitReady     = 12.0  // seconds from start to node Ready
	limitPSS       = 700.0 // MB of all processes of the control plane
	limitCPU       = 12.0  // per cent of a core, idle
	limitInstall   = 120.0 // seconds from power-on to image written, UEFI, emulated
	limitBinary    = 250.0 // MB
	limitAgent     = 30.0  // MB
	limitInitramfs = 10.0  // MB
	idleWindow     = 30 * time.Second
	megabyte       = 1e6
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == pull.Program {
		if err := pull.Serve(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	regiond := flag.String("regiond", "bin/regiond", "the regiond binary")
	imageDir := flag.String("image-dir", "/var/cache/regiond/images", "folder of images")
	distribution := flag.String("distribution", "", "the program of distribution's registry (scripts/fetch-distribution)")
	flag.Parse()
	// What a client of the lab's API has to say is in the errors that it returns.
	ctrllog.SetLogger(logr.Discard())
	if err := run(context.Background(), *regiond, *imageDir, *distribution); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// figure is one measured value. Less is better for all of them.
type figure struct {
	name  string
	value float64
	limit float64
	unit  string
}

// run measures part after part. A part that fails does not end the others, and what it had measured counts.
func run(ctx context.Context, regiond, imageDir, distribution string) error {
	var all []figure
	var texts []string
	var errs []error
	add := func(part string, figures []figure, text string, err error) {
		all = append(all, figures...)
		if text != "" {
			texts = append(texts, text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part, err))
		}
	}
	figures, text, err := server(ctx, regiond, imageDir)
	add("one server", figures, text, err)
	figures, err = openstack(ctx, regiond, imageDir)
	add("OpenStack", figures, "", err)
	figures, text, err = rendering(ctx)
	add("rendering", figures, text, err)
	figures, text, err = pulling(ctx, imageDir, distribution)
	add("registry", figures, text, err)
	figures, text, err = building(ctx, regiond)
	add("image", figures, text, err)
	figures, err = sizes(regiond, imageDir)
	add("sizes", figures, "", err)
	print(all)
	if len(texts) > 0 {
		fmt.Println("\n" + strings.Join(texts, "\n"))
	}
	return errors.Join(errs...)
}

// measurement of one figure.
type measurement struct {
	figure  figure
	measure func() (float64, error)
}

// measure makes measurements that do not depend on each other, and prints each figure when it has it.
func measure(all ...measurement) (figures []figure, err error) {
	var errs []error
	for _, m := range all {
		if m.figure.value, err = m.measure(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.figure.name, err))
			continue
		}
		fmt.Fprintf(os.Stderr, "measured: %s: %.1f %s\n", m.figure.name, m.figure.value, m.figure.unit)
		figures = append(figures, m.figure)
	}
	return figures, errors.Join(errs...)
}

// server measures a region with one server and without OpenStack.
func server(ctx context.Context, regiond, imageDir string) (figures []figure, netboot string, err error) {
	l := lab.Lab{Name: fmt.Sprintf("bench-%d", os.Getpid()), Root: lab.DefaultRoot, Spec: lab.Spec{Machines: []lab.MachineSpec{{Name: "node1"}}}}
	silent := func(string, ...any) {}
	defer func() { err = errors.Join(err, l.Down(silent)) }()
	out, err := up(ctx, regiond, imageDir, l)
	if err != nil {
		return nil, "", err
	}
	start, err := stageTime(out, "seed host:")
	if err != nil {
		return nil, "", err
	}
	ready, err := stageTime(out, string(lab.StageControlPlane))
	if err != nil {
		return nil, "", err
	}
	install, err := installTime(ctx, l)
	if err != nil {
		return nil, "", err
	}
	tftp, http, err := served(ctx, l)
	if err != nil {
		return nil, "", err
	}
	// Idle: the virtual server is off, so that only the control plane runs.
	if err := exec.CommandContext(ctx, regiond, "lab", "power", "--lab", l.Name, l.Spec.Machines[0].Name, "off").Run(); err != nil {
		return nil, "", fmt.Errorf("power off: %w", err)
	}
	pss, cpu, err := usage(ctx, namespace.Namespace{Name: "rl-" + l.Name + "-seed"})
	if err != nil {
		return nil, "", err
	}
	netboot = fmt.Sprintf("netboot: %.1f MB over TFTP (the loader), %.1f MB over HTTP", tftp/megabyte, http/megabyte)
	return []figure{
		{name: "control plane: start to node Ready", value: ready - start, limit: limitReady, unit: "s"},
		{name: "control plane: memory of all processes (PSS)", value: pss, limit: limitPSS, unit: "MB"},
		{name: "control plane: idle processor time", value: cpu, limit: limitCPU, unit: "% of a core"},
		{name: "install, UEFI: power-on to image written", value: install, limit: limitInstall, unit: "s"},
	}, netboot, nil
}

// up runs `lab up` with the lab's specification and returns what it printed.
func up(ctx context.Context, regiond, imageDir string, l lab.Lab) (string, error) {
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
	up := exec.CommandContext(ctx, regiond, "lab", "up", "--lab", l.Name, "--image-dir", imageDir, "--config", file)
	up.Stdout, up.Stderr = io.MultiWriter(&out, os.Stderr), os.Stderr
	err = up.Run()
	return out.String(), err
}

func print(figures []figure) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tMEASURED\tLIMIT\tRATIO")
	for _, f := range figures {
		ratio := "-" // of what is to be none at all
		if f.limit > 0 {
			ratio = fmt.Sprintf("%.2f", f.value/f.limit)
		}
		fmt.Fprintf(w, "%s\t%.1f %s\t%.0f %s\t%s\n", f.name, f.value, f.unit, f.limit, f.unit, ratio)
	}
	w.Flush()
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

// installTime from the request of the network boot, just before power-on, to the installer's last report.
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
	ns := namespace.Namespace{Name: "rl-" + l.Name + "-seed"}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = ns.Do(func() error { c, err = (&net.Dialer{}).DialContext(ctx, network, addr); return err })
		return c, err
	}}}
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

// usage of all processes in a namespace: memory in MB and, over an idle window, processor time in
// per cent of a core.
func usage(ctx context.Context, ns namespace.Namespace) (pss, cpu float64, err error) {
	before, err := ticks(ns)
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(idleWindow):
	}
	after, err := ticks(ns)
	if err != nil {
		return 0, 0, err
	}
	for pid, t := range after {
		if b, ok := before[pid]; ok {
			cpu += t - b
		}
		kb, err := pssOf(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		pss += kb * 1024 / megabyte
	}
	// Clock ticks are 10 ms (USER_HZ is 100 on amd64): one a second is one per cent.
	return pss, cpu / idleWindow.Seconds(), nil
}

func ticks(ns namespace.Namespace) (map[int]float64, error) {
	pids, err := ns.Processes()
	if err != nil {
		return nil, err
	}
	t := map[int]float64{}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // ended meanwhile
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		user, err1 := strconv.ParseFloat(f[11], 64)
		system, err2 := strconv.ParseFloat(f[12], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		t[pid] = user + system
	}
	return t, nil
}

func pssOf(pid int) (kb float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fs.ErrNotExist // ended meanwhile
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("no Pss in smaps_rollup of process %d", pid)
}

// sizes of what is shipped.
func sizes(regiond, imageDir string) ([]figure, error) {
	size := func(file string) (float64, error) {
		st, err := os.Stat(file)
		if err != nil {
			return 0, err
		}
		return float64(st.Size()) / megabyte, nil
	}
	binary, err1 := size(regiond)
	initramfs, err2 := size(filepath.Join(imageDir, "node", "current", "initramfs"))
	agent, err3 := unpacked("bootstrap/payload/files/regiond-node.zst")
	return []figure{
		{name: "regiond with all that it carries", value: binary, limit: limitBinary, unit: "MB"},
		{name: "node agent", value: agent, limit: limitAgent, unit: "MB"},
		{name: "initramfs", value: initramfs, limit: limitInitramfs, unit: "MB"},
	}, errors.Join(err1, err2, err3)
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
