package cluster

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
)

// A reconciliation reads from caches that watches fill. The API server itself is asked for the
// cluster, whose finalizer and pin come before all effects, for what is about to be written, and
// for the Secret when its metadata has changed.

// cached reads metadata from its cache, and the Secret of the cluster from memory. Other Secrets
// are not in a cache: they are large.
type cached struct {
	client.Client
	metadata client.Reader
	secret   *corev1.Secret // nil if there is none
}

// Get reads the Secret of the cluster from memory, and metadata from its cache.
func (c cached) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		return c.metadata.Get(ctx, key, o, opts...)
	case *corev1.Secret:
		if key.Name != openstack.SecretName {
			break
		}
		if c.secret == nil {
			return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
		}
		c.secret.DeepCopyInto(o)
		return nil
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// List reads metadata from its cache.
func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
		return c.metadata.List(ctx, list, opts...)
	}
	return c.Client.List(ctx, list, opts...)
}

// reads of this reconciliation.
func (t *reconciliation) reads() client.Client {
	return cached{Client: t.Client, metadata: t.Metadata, secret: t.seen.secret}
}

// readSecret returns the Secret of the cluster, nil if there is none. It is read again only when
// its metadata has changed. That there is none is not believed of a cache, which may lag: another
// one would be generated.
func (t *reconciliation) readSecret(ctx context.Context) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: openstack.Namespace(t.cluster.Name), Name: openstack.SecretName}
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := t.Metadata.Get(ctx, key, known)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if s := t.seen.secret; err == nil && s != nil && s.UID == known.UID && s.ResourceVersion == known.ResourceVersion {
		return s.DeepCopy(), nil
	}
	secret := &corev1.Secret{}
	if err := t.Live.Get(ctx, key, secret); err != nil {
		t.seen.secret = nil
		return nil, client.IgnoreNotFound(err)
	}
	t.seen.secret = secret.DeepCopy()
	return secret, nil
}

// presence identifies the object that is there in the place of one that is desired, "" if there is
// none: one that was deleted, or was made by someone else since, is a reason to apply it again.
// Workloads are compared by what they run.
func (t *reconciliation) presence(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	var err error
	switch o.GetKind() {
	case "Secret", "ConfigMap":
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		err = t.Metadata.Get(ctx, client.ObjectKeyFromObject(o), live)
		if err == nil {
			return "there: " + string(live.UID), nil
		}
	case "Service":
		live := &corev1.Service{}
		err = t.Client.Get(ctx, client.ObjectKeyFromObject(o), live)
		if err == nil {
			return "there: " + string(live.UID), nil
		}
	}
	return "", client.IgnoreNotFound(err)
}

// asUnstructured converts an object of a cache, which has no kind.
func asUnstructured(o client.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: m}
	switch o.(type) {
	case *appsv1.Deployment:
		u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	case *appsv1.StatefulSet:
		u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	case *batchv1.Job:
		u.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	}
	return u, nil
}
