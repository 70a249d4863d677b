package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/images/guest"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/bench/proc"
	"regiond.dev/regiond/test/lab"
)

// Limits of what an OpenStack control plane may cost.
const (
	limitOpenStackPSS = 3200.0 // MB of Kubernetes and OpenStack, one worker a service
	limitGates        = 360.0  // seconds from start to all gates passed, images present
	limitSecondStart  = 120.0  // seconds, the same when the databases are there
	limitLive         = 60.0   // seconds until a changed option is live on both nodes, the second after the first has proved it
)

// openstack measures OpenStack in a lab whose nodes are namespaces: what is measured is the control plane and its rollout.
func openstack(ctx context.Context, c config) (figures []figure, _ string, err error) {
	l := lab.Lab{Name: fmt.Sprintf("bench-os-%d", os.Getpid()), Root: lab.DefaultRoot, Spec: lab.Spec{
		Machines:  []lab.MachineSpec{{Name: "n1", Kind: lab.KindNamespace}, {Name: "n2", Kind: lab.KindNamespace}},
		OpenStack: &lab.OpenStackSpec{},
	}}
	defer func() { err = errors.Join(err, l.Down(func(string, ...any) {})) }()
	figures, err = measure(measurement{figure{name: "OpenStack: start to all gates passed, images present", limit: limitGates, unit: "s"},
		func() (float64, error) { return gatesTime(ctx, c, l) }})
	if err != nil {
		return figures, "", err // of a lab that is not up nothing else can be measured
	}
	if err := proveCloud(ctx, l, c.imageDir, time.Time{}); err != nil {
		return figures, "", err
	}
	more, err := measure(
		measurement{figure{name: "OpenStack and Kubernetes: memory (PSS)", limit: limitOpenStackPSS, unit: "MB"},
			func() (float64, error) { return seedPSS(ctx, l) }},
		measurement{figure{name: "OpenStack: writes of an unchanged apply", unit: "objects"},
			func() (float64, error) { return unchangedApply(ctx, c.regiond, l) }},
		measurement{figure{name: "OpenStack: a changed option live on both nodes", limit: limitLive, unit: "s"},
			func() (float64, error) { return changedOption(ctx, c.regiond, l) }},
		measurement{figure{name: "OpenStack: second start to services and agents up", limit: limitSecondStart, unit: "s"},
			func() (float64, error) { return secondStart(ctx, c, l) }},
	)
	return append(figures, more...), "", err
}

// gatesTime brings the lab up and returns the time from the start of the seed host to the last gate.
func gatesTime(ctx context.Context, c config, l lab.Lab) (float64, error) {
	out, err := up(ctx, c, l)
	if err != nil {
		return 0, err
	}
	return stageTimes(out, "seed host:", lab.GateLine(region.Gates[len(region.Gates)-1]))
}

// proveCloud waits until every service and agent of OpenStack has reported itself after a time.
func proveCloud(ctx context.Context, l lab.Lab, imageDir string, since time.Time) error {
	disk, err := guest.Build(imageDir)
	if err != nil {
		return err
	}
	for {
		c, err := l.Cloud(ctx, disk, func(string, ...any) {})
		if err == nil {
			err = c.Reported(ctx, since, len(l.Spec.Machines))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// secondStart cuts the seed host's power and starts it again.
func secondStart(ctx context.Context, c config, l lab.Lab) (float64, error) {
	s, err := l.Status(ctx)
	if err != nil {
		return 0, err
	}
	if err := syscall.Kill(s.Seed, syscall.SIGKILL); err != nil {
		return 0, fmt.Errorf("end the seed host: %w", err)
	}
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	up := exec.CommandContext(ctx, c.regiond, "lab", "up", "--lab", l.Name, "--image-dir", c.imageDir)
	up.Stdout, up.Stderr = os.Stderr, os.Stderr
	if err := up.Run(); err != nil {
		return 0, err
	}
	return time.Since(started).Seconds(), proveCloud(ctx, l, c.imageDir, started)
}

// seedPSS is the memory of all processes of the seed host, those in pods included, in MB.
func seedPSS(ctx context.Context, l lab.Lab) (float64, error) {
	s, err := l.Status(ctx)
	if err != nil {
		return 0, err
	}
	parents := map[int]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, err2 := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[1])
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		parents[pid] = parent
	}
	pss := 0.0
	for pid := range parents {
		for p := pid; p > 1; p = parents[p] {
			if p != s.Seed {
				continue
			}
			if b, err := proc.PSS(pid); err == nil {
				pss += b / megabyte
			}
			break
		}
	}
	return pss, nil
}

// apply a region file of the lab, which is the lab's own with one value changed.
func apply(ctx context.Context, regiond string, l lab.Lab, change func(nova map[string]any), flags ...string) error {
	dir := filepath.Join(l.Root, l.Name)
	b, err := os.ReadFile(filepath.Join(dir, "region.yaml"))
	if err != nil {
		return err
	}
	var r struct {
		Spec struct {
			OpenStack struct {
				Clusters []struct {
					Values map[string]map[string]any `json:"values"`
				} `json:"clusters"`
			} `json:"openstack"`
		} `json:"spec"`
	}
	var whole map[string]any
	if err := errors.Join(yaml.Unmarshal(b, &r), yaml.Unmarshal(b, &whole)); err != nil {
		return err
	}
	values := r.Spec.OpenStack.Clusters[0].Values
	change(values["nova"])
	whole["spec"].(map[string]any)["openstack"].(map[string]any)["clusters"].([]any)[0].(map[string]any)["values"] = values
	if b, err = yaml.Marshal(whole); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "changed.yaml"), b, 0o600); err != nil {
		return err
	}
	args := append([]string{"lab", "exec", "--lab", l.Name, "--", "regiond", "apply", "-f", "/run/lab/changed.yaml", "--yes"}, flags...)
	if out, err := exec.CommandContext(ctx, regiond, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// unchangedApply counts the objects that an apply of what is there already writes.
func unchangedApply(ctx context.Context, regiond string, l lab.Lab) (float64, error) {
	c, err := l.Client()
	if err != nil {
		return 0, err
	}
	before, err := versions(ctx, c)
	if err != nil {
		return 0, err
	}
	if err := apply(ctx, regiond, l, func(map[string]any) {}); err != nil {
		return 0, err
	}
	after, err := versions(ctx, c)
	writes := 0.0
	for k, v := range after {
		if before[k] != v {
			writes++
		}
		delete(before, k)
	}
	return writes + float64(len(before)), err
}

// versions of all objects that an apply could write.
func versions(ctx context.Context, c client.Client) (map[string]string, error) {
	out := map[string]string{}
	for _, k := range []struct {
		gvk       schema.GroupVersionKind
		namespace string
	}{
		{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "openstack-lab"},
		{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, "openstack-lab"},
		{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "openstack-lab"},
		{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, "openstack-lab"},
		{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "openstack-lab"},
		{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "regiond-hosts"},
		{region.GroupVersion.WithKind("Region"), ""},
	} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(k.gvk)
		if err := c.List(ctx, &list, client.InNamespace(k.namespace)); err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			out[k.gvk.Kind+"/"+o.Namespace+"/"+o.Name] = o.ResourceVersion
		}
	}
	return out, nil
}

// changedOption is the time from an apply until nova-compute runs with what it changed on all nodes.
func changedOption(ctx context.Context, regiond string, l lab.Lab) (float64, error) {
	c, err := l.Client()
	if err != nil {
		return 0, err
	}
	before, err := novaCompute(ctx, c)
	if err != nil {
		return 0, err
	}
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := apply(ctx, regiond, l, func(nova map[string]any) { nova["vif_plugging_timeout"] = 299 }, "--wait=false"); err != nil {
		return 0, err
	}
	for {
		now, err := novaCompute(ctx, c)
		live := 0
		for name, digest := range now {
			if digest != before[name] {
				live++
			}
		}
		if err == nil && live == len(l.Spec.Machines) {
			return time.Since(started).Seconds(), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("a changed option is live on %d nodes only: %w", live, errors.Join(ctx.Err(), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// novaCompute is the digest of the configuration that nova-compute was started with, by host, where it is active.
func novaCompute(ctx context.Context, c client.Client) (map[string]string, error) {
	var hosts region.HostList
	if err := c.List(ctx, &hosts); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, h := range hosts.Items {
		if h.Status.Configuration == nil {
			continue
		}
		for _, p := range h.Status.Configuration.Processes {
			if p.Service == "nova-compute.service" && p.State == "active" {
				out[h.Name] = p.ConfigDigest
			}
		}
	}
	return out, nil
}
