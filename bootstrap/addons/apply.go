package addons

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// Apply applies objects in order, server-side, and overwrites fields that others changed: the
// manifests are the desired state.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		// The client fills in the server's response; the caller's object stays unchanged.
		desired := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
		if err := c.Apply(ctx, desired, client.FieldOwner(region.FieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), key(o), err)
		}
	}
	return nil
}

func key(o client.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// ApplyDefinitions applies the CustomResourceDefinitions and waits until the API serves them.
func ApplyDefinitions(ctx context.Context, c client.Client) error {
	definitions, err := Definitions()
	if err != nil {
		return err
	}
	if err := Apply(ctx, c, definitions...); err != nil {
		return err
	}
	for _, d := range definitions {
		if err := established(ctx, c, d); err != nil {
			return err
		}
	}
	return nil
}

// establishedTimeout bounds the wait for one definition; the API server takes well under a second.
const establishedTimeout = 30 * time.Second

func established(ctx context.Context, c client.Client, d *unstructured.Unstructured) error {
	last := "no condition yet"
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishedTimeout, true, func(ctx context.Context) (bool, error) {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(d.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), now); err != nil {
			last = err.Error()
			return false, nil // the API server may be restarting
		}
		for _, name := range []string{"NamesAccepted", "Established"} {
			ok, message := condition(now, name)
			if !ok {
				last = message
				return false, nil
			}
		}
		// Established means that the definition was accepted; discovery, by which the client maps kinds,
		// may lag behind.
		gk, version := definedKind(now)
		if _, err := c.RESTMapper().RESTMapping(gk, version); err != nil {
			last = err.Error()
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for CustomResourceDefinition %s to be served: %w (%s)", d.GetName(), err, last)
	}
	return nil
}

func condition(u *unstructured.Unstructured, name string) (bool, string) {
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return false, err.Error()
	}
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if ok && m["type"] == name {
			return m["status"] == "True", fmt.Sprintf("%s is %v: %v", name, m["status"], m["message"])
		}
	}
	return false, "no condition " + name + " yet"
}

func definedKind(d *unstructured.Unstructured) (schema.GroupKind, string) {
	group, _, _ := unstructured.NestedString(d.Object, "spec", "group")        // generated, always set
	kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind") // generated, always set
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")   // generated, always set
	var version string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["storage"] == true {
			version, _ = m["name"].(string)
		}
	}
	return schema.GroupKind{Group: group, Kind: kind}, version
}
