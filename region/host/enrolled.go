package host

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// Enrolled says whether the Host is of a machine that regiond did not install: there is no Server
// behind it.
func Enrolled(h *region.Host) bool { return h.Spec.ServerUID == "" }

// Enroll makes what the agent of a machine needs that regiond did not install. All of it belongs to
// the Host and goes with it, but for the holders of its rights, of which there are none before it joins. It may be done again,
// with another role or profile.
func Enroll(ctx context.Context, c client.Client, name string, role region.Role, profile string) (*region.Host, error) {
	server := &region.Server{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, server); err == nil {
		return nil, fmt.Errorf("host %s: there is a server of that name, and its host joins by itself; take another name", name)
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	desired := region.HostSpec{Role: role, Profile: profile}
	h := &region.Host{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, h)
	switch {
	case apierrors.IsNotFound(err):
		h = &region.Host{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: desired}
		err = c.Create(ctx, h)
	case err == nil && !Enrolled(h):
		err = fmt.Errorf("it is of the server with UID %s, which is no longer there; wait until it is collected, or delete it", h.Spec.ServerUID)
	case err == nil && h.Spec != desired:
		before := h.DeepCopy()
		h.Spec = desired
		err = c.Patch(ctx, h, client.MergeFrom(before))
	}
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	return h, EnsureEnrolled(ctx, c, h, Holders{Unrecorded: true})
}

// EnsureEnrolled brings back what an enrolled host's agent needs beside its Host.
func EnsureEnrolled(ctx context.Context, c client.Client, h *region.Host, holders Holders) error {
	return ensureRights(ctx, c, h, h.Name, holders)
}

// JoinToken is the name of the Secret, in region.NamespaceSystem, with the token that a host joins
// with.
func JoinToken(name string) string { return "join-" + name }

// Unenroll removes an enrolled host with all that belongs to it: its agent has no rights any more.
func Unenroll(ctx context.Context, c client.Client, name string) error {
	err := c.Get(ctx, client.ObjectKey{Name: name}, &region.Host{})
	if err == nil {
		err = RemoveEnrolled(ctx, c, name)
	}
	if err != nil {
		return fmt.Errorf("remove host %s: %w", name, err)
	}
	return nil
}

// RemoveEnrolled is Unenroll for a host that may not exist.
func RemoveEnrolled(ctx context.Context, c client.Client, name string) error {
	h := &region.Host{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !Enrolled(h) {
		return fmt.Errorf("it is the host of a server that regiond installed; delete the server: regiond kubectl delete server %s", name)
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: JoinToken(name), Namespace: region.NamespaceSystem}}
	if err := c.Delete(ctx, token); client.IgnoreNotFound(err) != nil {
		return err
	}
	return Remove(ctx, c, name)
}

// Owner of what is to go with a host, the Secret with its configuration for one.
func Owner(h *region.Host) metav1.OwnerReference {
	return *metav1.NewControllerRef(h, region.GroupVersion.WithKind("Host"))
}

// Heartbeat is when the host's agent last said that it lives; zero when it never did.
func Heartbeat(ctx context.Context, r client.Reader, h *region.Host) (time.Time, error) {
	lease := &coordinationv1.Lease{}
	err := r.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: h.Name}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("host %s: read its lease: %w", h.Name, err)
	case lease.Spec.RenewTime == nil || !metav1.IsControlledBy(lease, h):
		return time.Time{}, nil
	}
	return lease.Spec.RenewTime.Time, nil
}
