// Command bench measures regiond in a lab of its own and prints each figure beside its limit.
// Times are of this machine; the ratios are what to compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"regiond.dev/regiond/test/bench/kubeadm"
	"regiond.dev/regiond/test/bench/pull"
)

const megabyte = 1e6

// config says with what is measured.
type config struct {
	regiond, imageDir string
	// Peers: the program of distribution's registry, the folder of kubeadm's programs.
	distribution, kubeadm string
}

// part of the benchmark: its figures, and what else is to be said of them. Figures count that were
// measured before an error.
type part struct {
	name    string
	measure func(context.Context, config) (figures []figure, text string, err error)
}

var parts = []part{
	{"server", server},
	{"openstack", openstack},
	{"kubeadm", controlPlane},
	{"rendering", rendering},
	{"registry", pulling},
	{"image", building},
	{"sizes", sizes},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command measures, or plays a part of what is measured in a process of its own.
func command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case pull.Program:
			return pull.Serve(ctx, args[1:])
		case kubeadm.Program:
			return kubeadm.Serve(ctx, args[1:])
		}
	}
	var c config
	flag.StringVar(&c.regiond, "regiond", "bin/regiond", "the regiond binary")
	flag.StringVar(&c.imageDir, "image-dir", "/var/cache/regiond/images", "folder of images")
	flag.StringVar(&c.distribution, "distribution", "", "the program of distribution's registry (scripts/fetch-distribution)")
	flag.StringVar(&c.kubeadm, "kubeadm", "", "the folder of kubeadm's programs (scripts/build-kubeadm)")
	flag.Usage = func() {
		var names []string
		for _, p := range parts {
			names = append(names, p.name)
		}
		fmt.Fprintf(flag.CommandLine.Output(), "bench [flags] [PART...]: measures all, or these: %s\n", strings.Join(names, ", "))
		flag.PrintDefaults()
	}
	flag.Parse()
	// What a client of the lab's API has to say is in the errors that it returns.
	ctrllog.SetLogger(logr.Discard())
	chosen, err := choose(flag.Args())
	if err != nil {
		return err
	}
	before := load()
	err = run(ctx, c, chosen, os.Stdout)
	fmt.Printf("\nmachine: %d cores, load %s before the first part, %s after the last\n", runtime.NumCPU(), before, load())
	return err
}

// load is how many processes ran or waited for a disk over the last minute, on average
// (proc(5), loadavg): above one before the first part, the machine isn't quiet.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(b), " ")
	return minute
}

// figure is one measured value. Less is better for all of them.
type figure struct {
	name  string
	value float64
	limit float64
	unit  string
}

// String is the measured value. A small one is not printed as if it were none.
func (f figure) String() string {
	format := "%.1f %s"
	if f.value > 0 && f.value < 0.1 {
		format = "%.1g %s"
	}
	return fmt.Sprintf(format, f.value, f.unit)
}

// choose the parts with these names, or all, in their order.
func choose(names []string) (chosen []part, err error) {
	for _, p := range parts {
		if len(names) == 0 || slices.Contains(names, p.name) {
			chosen = append(chosen, p)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(chosen, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("there is no part %q: bench -h names them", name)
		}
	}
	return chosen, nil
}

// run measures part after part. One that fails does not end the others, and what it had measured
// counts.
func run(ctx context.Context, c config, chosen []part, out io.Writer) error {
	var all []figure
	var texts []string
	var errs []error
	for _, p := range chosen {
		if ctx.Err() != nil {
			break // told to stop
		}
		figures, text, err := p.measure(ctx, c)
		all = append(all, figures...)
		if text != "" {
			texts = append(texts, text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	print(out, all)
	if len(texts) > 0 {
		fmt.Fprintln(out, "\n"+strings.Join(texts, "\n"))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// measurement of one figure.
type measurement struct {
	figure  figure
	measure func() (float64, error)
}

// measure makes measurements that do not depend on each other, and prints each figure when it has
// it.
func measure(all ...measurement) (figures []figure, err error) {
	var errs []error
	for _, m := range all {
		if m.figure.value, err = m.measure(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.figure.name, err))
			continue
		}
		figures = append(figures, measured(m.figure)...)
	}
	return figures, errors.Join(errs...)
}

// measured prints figures at once: what comes after them may take long, or never end.
func measured(figures ...figure) []figure {
	for _, f := range figures {
		fmt.Fprintf(os.Stderr, "measured: %s: %s\n", f.name, f)
	}
	return figures
}

func print(out io.Writer, figures []figure) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tMEASURED\tLIMIT\tRATIO")
	for _, f := range figures {
		ratio := "-" // of what is to be none at all
		if f.limit > 0 {
			ratio = fmt.Sprintf("%.2f", f.value/f.limit)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f %s\t%s\n", f.name, f, f.limit, f.unit, ratio)
	}
	w.Flush()
}
