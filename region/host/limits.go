package host

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

//go:embed limits.yaml
var limits []byte

// ApplyLimits has the API server bound what the agents of hosts write: in size by admission policies,
// and in rate by a priority level of their own.
func ApplyLimits(ctx context.Context, c client.Client) error {
	objects, err := limitObjects()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(region.FieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("limits of hosts: apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func limitObjects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(limits), 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("limits of hosts: limits.yaml: %w", err)
		}
		if o.GetKind() == "ValidatingAdmissionPolicy" && o.GetName() == "regiond-host-status" {
			characters := map[string]any{"name": "characters", "expression": characters(reflect.TypeFor[region.HostStatus](), "object.?status", 0)}
			if err := unstructured.SetNestedSlice(o.Object, []any{characters}, "spec", "variables"); err != nil {
				return nil, err
			}
		}
		objects = append(objects, o)
	}
}

// elementSize is what an element of a list counts beside its texts, for its keys, numbers and times.
const elementSize = 64

// characters is the CEL expression for the number of characters in the texts of a value, which path
// gives as an optional. It is derived from the type, so that a field that is added is counted. The API
// server prunes what the type does not have.
func characters(t reflect.Type, path string, depth int) string {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return ""
	case t.Kind() == reflect.Pointer:
		return characters(t.Elem(), path, depth)
	case t.Kind() == reflect.String:
		return path + `.orValue("").size()`
	case t.Kind() == reflect.Slice:
		element := fmt.Sprintf("e%d", depth)
		sum := fmt.Sprint(elementSize)
		if texts := characters(t.Elem(), "optional.of("+element+")", depth+1); texts != "" {
			sum += " + " + texts
		}
		return path + ".orValue([]).map(" + element + ", " + sum + ").sum()"
	case t.Kind() == reflect.Struct:
		var sums []string
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if texts := characters(f.Type, path+".?"+name, depth); texts != "" {
				sums = append(sums, texts)
			}
		}
		return strings.Join(sums, " + ")
	case t.Kind() == reflect.Bool, t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64:
		return ""
	}
	panic(fmt.Sprintf("limits of hosts: a status with a field of type %s is not counted", t))
}
