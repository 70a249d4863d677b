package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/condition"
)

// pin sees to it that the cluster is pinned, and finds the templates that it is pinned to. Trouble says why not.
func (t *reconciliation) pin(ctx context.Context, reg *region.Region) (*Trouble, error) {
	if t.cluster.Spec.Pinned == nil {
		pin, trouble, err := t.findPinSometimes(ctx, reg)
		if err != nil || trouble != nil {
			return trouble, err
		}
		if _, err := t.Templates.Get(ctx, pin.Templates); err != nil { // stored before the cluster refers to them
			return nil, err
		}
		before := t.cluster.DeepCopy()
		t.cluster.Spec.Pinned = pin
		if err := t.Live.Patch(ctx, t.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, err
		}
		t.facts.Generation = t.cluster.Generation // the pin is a part of the declaration
		t.log.Info("cluster is pinned", slog.String("release", string(pin.Images.Release)), slog.String("templates", pin.Templates),
			slog.String("recipe", pin.Images.Recipe))
	}
	var err error
	t.composer, err = t.pinnedTemplates(ctx, t.cluster.Spec.Pinned.Templates)
	var lost *plan.TemplatesError
	if errors.As(err, &lost) {
		return &Trouble{Reason: region.ReasonTemplatesMissing, Message: clip(err.Error())}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := oci.Hold(reg.Spec.Images.Dir, t.cluster.Name, openstack.PinnedImages(t.cluster.Spec.Pinned)); err != nil {
		t.facts.Warnings = append(t.facts.Warnings, fmt.Sprintf("the next build of images may remove those that it runs, since they can't be marked as used: %v", err))
	}
	return nil, nil
}

// pinnedTemplates are those of a digest. Whether the API server still has them is looked at now and
// then: no event tells of it.
func (t *reconciliation) pinnedTemplates(ctx context.Context, digest string) (*openstack.Composer, error) {
	seen := &t.seen.templates
	if seen.holds(digest, t.Now()) {
		return seen.composer, nil
	}
	c, err := t.Templates.Get(ctx, digest)
	if err == nil {
		seen.check, seen.composer = check{of: digest, time: t.Now()}, c
	}
	return c, err
}

// findPinSometimes is findPin, not repeated for a while after it has found nothing.
func (t *reconciliation) findPinSometimes(ctx context.Context, reg *region.Region) (*region.OpenStackPin, *Trouble, error) {
	last := &t.seen.unpinned
	if last.trouble != nil && last.generation == t.cluster.Generation && t.Now().Sub(last.time) < terminalPoll {
		return nil, last.trouble, nil
	}
	pin, trouble, err := t.findPin(ctx, reg)
	last.trouble = nil
	if trouble != nil && trouble.Reason == region.ReasonNotPinned {
		last.generation, last.time, last.trouble = t.cluster.Generation, t.Now(), trouble
	}
	return pin, trouble, err
}

// findPin of a cluster without one: a cluster that is not there yet gets this program's templates and the images built last; one
// that runs, what it runs.
func (t *reconciliation) findPin(ctx context.Context, reg *region.Region) (*region.OpenStackPin, *Trouble, error) {
	running, err := plan.Running(ctx, t.Live, t.cluster.Name)
	if err != nil {
		return nil, nil, err
	}
	if len(running) == 0 {
		if err := plan.Returns(ctx, t.Live, t.cluster.Name, t.cluster.Spec.Release); err != nil {
			var refused *plan.ReleaseError
			if errors.As(err, &refused) {
				return nil, &Trouble{Reason: region.ReasonReleaseRefused, Message: clip(err.Error())}, nil
			}
			return nil, nil, err
		}
		set, err := oci.Current(reg.Spec.Images.Dir, string(t.cluster.Spec.Release))
		if err != nil {
			return nil, &Trouble{Reason: region.ReasonNotConfigurable, Message: clip(err.Error())}, nil
		}
		return openstack.NewPin(t.Templates.Own.Digest(), set), nil, nil
	}
	sets, err := oci.Kept(reg.Spec.Images.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unpinned("the image sets in %s can't be read: %v", reg.Spec.Images.Dir, err), nil
	}
	set, found := openstack.SetOf(sets, running)
	if !found {
		slices.Sort(running)
		return nil, unpinned("the image sets in %s have none that holds all images that it runs: %s", reg.Spec.Images.Dir,
			condition.List(slices.Compact(running), ", ")), nil
	}
	var why []string
	for _, c := range slices.Concat([]*openstack.Composer{t.Templates.Own}, t.Templates.Earlier) {
		pin := openstack.NewPin(c.Digest(), set)
		disturbed, err := t.disturbs(ctx, reg, c, pin)
		if err != nil {
			return nil, nil, err
		}
		if disturbed == "" {
			return pin, nil, nil
		}
		why = append(why, fmt.Sprintf("templates %s would change %s", short(c.Digest()), disturbed))
	}
	return nil, unpinned("%s", condition.List(slices.Compact(why), "; ")), nil
}

func unpinned(format string, args ...any) *Trouble {
	return &Trouble{Reason: region.ReasonNotPinned, Message: clip("nothing is changed: an earlier regiond rolled this cluster out, and it is not " +
		"known from what; see what this one would change, and do it: regiond plan, then regiond apply; " + fmt.Sprintf(format, args...))}
}

// disturbs says what of the running cluster a pin would change.
func (t *reconciliation) disturbs(ctx context.Context, reg *region.Region, c *openstack.Composer, pin *region.OpenStackPin) (string, error) {
	as := t.cluster.DeepCopy()
	as.Spec.Pinned = pin
	f, err := plan.Gather(ctx, t.Live, reg, as)
	if err != nil {
		return "", err
	}
	if f.Secrets == nil {
		return "its secrets, which are missing", nil
	}
	s, err := t.Compose(c, f.Input, nil)
	if err != nil {
		return err.Error(), nil // these templates are not what it was rendered from
	}
	disturbed, err := plan.Disturbs(ctx, t.Live, s, f.Hosts)
	if apierrors.ReasonForError(err) == metav1.StatusReasonInvalid {
		return err.Error(), nil
	}
	return disturbed, err
}

// letGo of the images that a removed cluster ran.
func (c *Controller) letGo(cluster string) error {
	return oci.Unhold(c.Region.Spec.Images.Dir, cluster)
}
