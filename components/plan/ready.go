package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// readyPoll is the interval between checks of WaitReady.
const readyPoll = time.Second

// WaitReady waits until every named OpenStack cluster is Ready with its current specification, and
// the removed ones are gone. report gets a line for each condition that changes. When ctx ends, the
// error says what is still missing.
func WaitReady(ctx context.Context, c client.Client, names, removed []string, report func(string)) error {
	t := time.NewTicker(readyPoll)
	defer t.Stop()
	said := map[string]string{}
	for {
		missing, err := notReady(ctx, c, names, removed, func(key, line string) {
			if said[key] != line {
				said[key] = line
				report(line)
			}
		})
		if err == nil && len(missing) == 0 {
			return nil
		}
		if err != nil {
			missing = []string{err.Error()} // the API server may be restarting
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; still missing:\n  %s", context.Cause(ctx), strings.Join(missing, "\n  "))
		case <-t.C:
		}
	}
}

// notReady lists the reasons why clusters are not ready, or not gone yet.
func notReady(ctx context.Context, c client.Client, names, removed []string, report func(key, line string)) (missing []string, err error) {
	var list region.OpenStackClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("OpenStack clusters: %w", err)
	}
	seen := map[string]bool{}
	for _, o := range list.Items {
		seen[o.Name] = true
		switch {
		case slices.Contains(removed, o.Name):
			missing = append(missing, o.Name+": it is being removed"+because(o))
			report(o.Name, o.Name+": being removed"+because(o))
		case slices.Contains(names, o.Name):
			missing = append(missing, unready(o, report)...)
		}
	}
	for _, n := range names {
		if !seen[n] {
			missing = append(missing, n+": the OpenStack cluster no longer exists")
		}
	}
	return missing, nil
}

func because(o region.OpenStackCluster) string {
	if ready := meta.FindStatusCondition(o.Status.Conditions, region.ConditionReady); ready != nil && ready.Message != "" {
		return ": " + ready.Message
	}
	return ""
}

// unready lists the reasons why a cluster is not ready, in order of dependency of its conditions.
func unready(o region.OpenStackCluster, report func(key, line string)) []string {
	if o.Status.ObservedGeneration < o.Generation {
		report(o.Name, o.Name+": waiting for regiond's controller to observe the change")
		return []string{o.Name + ": regiond's controller has not observed the change; check that it runs: regiond status"}
	}
	ready := meta.FindStatusCondition(o.Status.Conditions, region.ConditionReady)
	done := ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration >= o.Generation
	var missing []string
	for _, name := range slices.Concat([]string{region.ConditionConfigured}, region.Gates, []string{region.ConditionNodes}) {
		cond := meta.FindStatusCondition(o.Status.Conditions, name)
		switch {
		case cond == nil:
		case cond.Status == metav1.ConditionTrue:
			report(o.Name+"/"+name, fmt.Sprintf("%s: %s: passed", o.Name, name))
		case cond.Message != "":
			line := fmt.Sprintf("%s: %s: %s", o.Name, name, cond.Message)
			report(o.Name+"/"+name, line)
			missing = append(missing, line)
		}
	}
	switch {
	case done:
		report(o.Name, o.Name+": Ready")
		return nil
	case len(missing) == 0:
		return []string{o.Name + ": not Ready" + because(o)}
	}
	return missing
}
