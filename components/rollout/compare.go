package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// Action is an action on an object.
type Action string

// Actions.
const (
	ActionNone    Action = "none"
	ActionCreate  Action = "create"
	ActionUpdate  Action = "update"
	ActionReplace Action = "replace" // the difference can't be applied in place
	ActionDelete  Action = "delete"
)

// Change is a change of one object.
type Change struct {
	Action Action  `json:"action"`
	Object Ref     `json:"object"`
	Fields []Field `json:"fields,omitempty"`
	// Consequence is the effect on users of the object.
	Consequence string `json:"consequence,omitempty"`

	live, result *unstructured.Unstructured
}

// Field is a field that differs. An empty old value means that it is added, an empty new one that
// it is removed.
type Field struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	// Effects say when changes of a Region's field take effect.
	Effects []region.Effect `json:"effects,omitempty"`
}

// NewChange returns the change from the live object to the resulting one, either of which may be
// nil, with its consequence.
func NewChange(action Action, live, result *unstructured.Unstructured) Change {
	of := result
	if of == nil {
		of = live
	}
	c := Change{Action: action, Object: RefOf(of), live: live, result: result}
	if action == ActionUpdate {
		c.Fields = Diff(live, result)
	}
	c.Consequence = consequence(c)
	return c
}

// Compare says what applying an object would change, by a dry run.
func Compare(ctx context.Context, c client.Client, o *unstructured.Unstructured) (Change, error) {
	none := Change{Action: ActionNone, Object: RefOf(o)}
	live, err := get(ctx, c, o)
	if err != nil {
		return none, fmt.Errorf("%s: %w", none.Object, err)
	}
	if live != nil && done(live) {
		return none, nil
	}
	result, err := serverSide(ctx, c, o, client.DryRunAll)
	switch {
	case live == nil && apierrors.IsNotFound(err): // its namespace does not exist yet either; it is applied first
		return NewChange(ActionCreate, nil, o), nil
	case live != nil && unchangeable(err):
		if err := creatable(ctx, c, o); err != nil {
			return none, fmt.Errorf("%s: %w", none.Object, err)
		}
		return NewChange(ActionReplace, live, o), nil
	case err != nil:
		return none, fmt.Errorf("%s: %w", none.Object, err)
	case live == nil:
		return NewChange(ActionCreate, nil, result), nil
	case len(Diff(live, result)) == 0:
		return none, nil
	}
	return NewChange(ActionUpdate, live, result), nil
}

// References returns the Secrets and ConfigMaps that a changed object names, before and after the
// change.
func (c Change) References() (before, after []corev1.TypedLocalObjectReference) {
	return references(c.live.Object), references(c.result.Object)
}

// unchangeable reports whether the API server refused because fields are immutable. It has no
// reason code for that, only messages: "field is immutable", and for a StatefulSet "updates to
// statefulset spec for fields other than … are forbidden".
func unchangeable(err error) bool {
	if !apierrors.IsInvalid(err) {
		return false
	}
	return strings.Contains(err.Error(), "immutable") || strings.Contains(err.Error(), "updates to statefulset spec")
}

// bookkeeping of the API server does not count as a difference.
var bookkeeping = []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"}

// Diff lists the fields in which the live object differs from the result of a dry run. Values of
// secrets are not shown.
func Diff(live, result *unstructured.Unstructured) []Field {
	d := &differ{secret: live.GetKind() == "Secret"}
	for _, k := range keys(live.Object, result.Object) {
		a, b := live.Object[k], result.Object[k]
		if k == "metadata" {
			a, b = withoutBookkeeping(a), withoutBookkeeping(b)
		}
		if k != "status" {
			d.compare(k, a, b)
		}
	}
	return d.fields
}

func withoutBookkeeping(metadata any) any {
	m, _ := metadata.(map[string]any)
	m = maps.Clone(m)
	for _, k := range bookkeeping {
		delete(m, k)
	}
	return m
}

type differ struct {
	secret bool
	fields []Field
}

func (d *differ) compare(path string, a, b any) {
	if text(a) == text(b) {
		return
	}
	x, isMap := a.(map[string]any)
	y, otherIsMap := b.(map[string]any)
	if isMap && otherIsMap {
		for _, k := range keys(x, y) {
			d.compare(join(path, k), x[k], y[k])
		}
		return
	}
	l, isList := a.([]any)
	m, otherIsList := b.([]any)
	if isList && otherIsList {
		d.lists(path, l, m)
		return
	}
	old, now := shown(a), shown(b)
	if d.secret && (strings.HasPrefix(path, "data") || strings.HasPrefix(path, "stringData")) {
		old, now = hidden(a), hidden(b)
	}
	d.fields = append(d.fields, Field{Path: path, Old: old, New: now})
}

// lists compares lists by the names of their elements if they have names, like containers and
// volumes, else by index.
func (d *differ) lists(path string, a, b []any) {
	x, named := byName(a)
	y, otherNamed := byName(b)
	if named && otherNamed {
		before := len(d.fields)
		for _, k := range keys(x, y) {
			d.compare(path+"["+k+"]", x[k], y[k])
		}
		if len(d.fields) == before { // only their order differs
			d.fields = append(d.fields, Field{Path: path, Old: shown(a), New: shown(b)})
		}
		return
	}
	for i := range max(len(a), len(b)) {
		var v, w any
		if i < len(a) {
			v = a[i]
		}
		if i < len(b) {
			w = b[i]
		}
		d.compare(path+"["+strconv.Itoa(i)+"]", v, w)
	}
}

func byName(list []any) (map[string]any, bool) {
	m := map[string]any{}
	for _, e := range list {
		o, _ := e.(map[string]any)
		name, ok := o["name"].(string)
		if _, twice := m[name]; !ok || twice {
			return nil, false
		}
		m[name] = e
	}
	return m, true
}

// keys of both, sorted.
func keys(a, b map[string]any) []string {
	all := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(all)
	return slices.Compact(all)
}

func join(path, key string) string {
	if strings.ContainsAny(key, "./") {
		return path + `["` + key + `"]`
	}
	return path + "." + key
}

// text returns a value as text; keys of maps are sorted.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // can't happen: the value was decoded from JSON
	}
	return string(b)
}

// maxShown is the maximum length of a value in a plan, in characters.
const maxShown = 160

func shown(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if s = v; s == "" || strings.ContainsAny(s, "\n\t") {
			s = strconv.Quote(s)
		}
	default:
		s = text(v)
	}
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return s
}

func hidden(v any) string {
	if v == nil {
		return ""
	}
	return "<secret>"
}
