// Package rollout reconciles Kubernetes objects with their declaration: it compares and applies
// them, says what a workload is waiting for, and prunes objects that are no longer declared. It is
// independent of any component.
//
// The API server computes differences by server-side apply, dry-run or not: it knows defaults,
// field owners and immutable fields. An apply that changes nothing writes nothing.
package rollout

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// RefOf names an object.
func RefOf(o client.Object) Ref {
	return Ref{Kind: o.GetObjectKind().GroupVersionKind().Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Apply applies objects in order and returns those that were written. Fields that others changed
// are overwritten: the declaration wins. An object that can't be changed is replaced, except for
// Jobs: their names depend on what they do, and an existing one is left alone.
func Apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) ([]Ref, error) {
	var written []Ref
	for _, o := range objects {
		wrote, err := applyOne(ctx, c, o)
		if err != nil {
			return written, fmt.Errorf("apply %s: %w", RefOf(o), err)
		}
		if wrote {
			written = append(written, RefOf(o))
		}
	}
	return written, nil
}

func applyOne(ctx context.Context, c client.Client, o *unstructured.Unstructured) (wrote bool, err error) {
	live, err := get(ctx, c, o)
	if err != nil {
		return false, err
	}
	if live != nil && done(live) {
		return false, nil
	}
	result, err := serverSide(ctx, c, o)
	if live != nil && unchangeable(err) {
		if err := creatable(ctx, c, o); err != nil {
			return false, err
		}
		if err := remove(ctx, c, live); err != nil {
			return false, fmt.Errorf("it can't be changed in place, and its replacement was refused: %w", err)
		}
		result, err = serverSide(ctx, c, o)
	}
	if err != nil {
		return false, err
	}
	return live == nil || live.GetResourceVersion() != result.GetResourceVersion(), nil
}

// done reports whether an existing object is left alone: a Job does not run twice.
func done(live *unstructured.Unstructured) bool { return live.GetKind() == "Job" }

// get returns the live object, nil if there is none.
func get(ctx context.Context, c client.Client, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(o), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// serverSide applies a copy of an object and returns the result.
func serverSide(ctx context.Context, c client.Client, o *unstructured.Unstructured, opts ...client.ApplyOption) (*unstructured.Unstructured, error) {
	result := o.DeepCopy()
	opts = append(opts, client.FieldOwner(region.FieldManager), client.ForceOwnership)
	return result, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(result), opts...)
}

// creatable returns nil if the API server would accept the object as a new one. No object is
// deleted for a replacement that would be refused.
func creatable(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	other := o.DeepCopy()
	other.SetName(o.GetName() + "-x")
	_, err := serverSide(ctx, c, other, client.DryRunAll)
	return err
}

// removeTimeout bounds the wait for a deleted object to be gone. Its pods, unless they are kept,
// terminate later.
const removeTimeout = time.Minute

// remove deletes an object and waits until it is gone. The pods of a StatefulSet are kept; its
// replacement adopts them.
func remove(ctx context.Context, c client.Client, live *unstructured.Unstructured) error {
	propagation := metav1.DeletePropagationBackground
	if live.GetKind() == "StatefulSet" {
		propagation = metav1.DeletePropagationOrphan
	}
	uid := live.GetUID()
	err := c.Delete(ctx, live, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, removeTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := get(ctx, c, live)
		return err == nil && (now == nil || now.GetUID() != uid), err
	})
	if err != nil {
		return fmt.Errorf("waiting until it is deleted: %w", err)
	}
	return nil
}
