package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// recordCompute records on a Host that it gets compute services of a cluster. It MUST be called
// before their configuration can reach the host: a later retirement of the host relies on the
// record.
func recordCompute(ctx context.Context, c client.Client, cluster, name string) error {
	h := &region.Host{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
		return fmt.Errorf("record that host %s gets compute services: %w", name, err)
	}
	of := h.ComputeOf()
	if slices.Contains(of, cluster) {
		return nil
	}
	return setComputeOf(ctx, c, h, append(of, cluster))
}

// forgetCompute removes a cluster from the record on a Host.
func forgetCompute(ctx context.Context, c client.Client, cluster, name string) error {
	h := &region.Host{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
		return client.IgnoreNotFound(err)
	}
	of := h.ComputeOf()
	if !slices.Contains(of, cluster) {
		return nil
	}
	return setComputeOf(ctx, c, h, slices.DeleteFunc(of, func(s string) bool { return s == cluster }))
}

func setComputeOf(ctx context.Context, c client.Client, h *region.Host, of []string) error {
	before := h.DeepCopy()
	h.SetComputeOf(of)
	if err := c.Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("host %s: record its compute services: %w", h.Name, err)
	}
	return nil
}

// ComputeOf returns the OpenStack clusters whose compute services a host was given: those recorded
// on its Host, which may be nil, and the cluster of its stored configuration, which an earlier
// regiond that kept no record may have written.
func ComputeOf(ctx context.Context, c client.Reader, h *region.Host, name string) ([]string, error) {
	var of []string
	if h != nil {
		of = h.ComputeOf()
	}
	stored := &metav1.PartialObjectMetadata{}
	stored.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := c.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: name}, stored)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("configuration of host %s: %w", name, err)
	default:
		if cluster := stored.Labels[openstack.LabelCluster]; cluster != "" && !slices.Contains(of, cluster) {
			of = append(of, cluster)
		}
	}
	slices.Sort(of)
	return of, nil
}

// RemoveNode deletes the stored configuration of a host. The agent keeps its current configuration,
// guests continue to run, and the Host keeps its record.
func RemoveNode(ctx context.Context, c client.Client, cluster string, s client.Object) error {
	uid := s.GetUID()
	if err := recordCompute(ctx, c, cluster, s.GetName()); err != nil && !apierrors.IsNotFound(err) { // the Secret of a deleted Host
		return err
	}
	if err := c.Delete(ctx, s, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("configuration of host %s: %w", s.GetName(), err)
	}
	return nil
}

// StopNode replaces the configuration of a host with one without services, so that its agent stops
// those of the cluster. It MUST NOT be called while guests are on the host.
func StopNode(ctx context.Context, c client.Client, cluster *region.OpenStackCluster, name string, now time.Time) error {
	h := &region.Host{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
		return err
	}
	of, err := ComputeOf(ctx, c, h, name)
	if err != nil || !slices.Contains(of, cluster.Name) {
		return err // it was released already, and the caller's cache lags
	}
	_, err = applyNode(ctx, c, cluster, NodeWrite{}, openstack.Host{Name: name, UID: h.UID}, now)
	return err
}

// ReleaseNode deletes the stored configuration of a host, if it belongs to the cluster, and removes
// the cluster from the host's record. It MUST NOT be called before it is certain that the host has
// none of the cluster's guests and no longer runs the cluster's compute service.
func ReleaseNode(ctx context.Context, c client.Client, cluster, name string) error {
	stored := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: name}, stored)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && stored.Labels[openstack.LabelCluster] == cluster {
		if err := c.Delete(ctx, stored, client.Preconditions{UID: &stored.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return forgetCompute(ctx, c, cluster, name)
}
