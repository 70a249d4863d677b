// Command bench measures regiond in a lab of its own and prints each figure beside its limit.
// Times are of this machine; the ratios are what to compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"regiond.dev/regiond/test/bench/pull"
)

const megabyte = 1e6

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
