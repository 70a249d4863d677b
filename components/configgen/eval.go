package configgen

import (
	"fmt"
	"slices"
	"strings"

	"regiond.dev/regiond/region/check"
)

// evaluation evaluates one file's template. It continues after an error, to find all of them.
type evaluation struct {
	template string
	values   *Values
	root     *node
	buf      []byte
	// items of the enclosing ranges.
	items []item
	// format of the file; empty for files of oslo.config.
	format string
	errs   []error
	// steps are recorded if traced is set.
	traced bool
	steps  []step
	conds  []use
	src    *Source
}

// item is the current item of a range.
type item struct {
	value  any
	secret bool
	// path of the list.
	path []string
}

// use is the use of a value of the tree.
type use struct {
	path []string
	leaf *node
}

// step is a piece of output of one statement.
type step struct {
	// offset in the output at which it begins.
	offset int
	line   int
	// uses are the printed value and those of the enclosing conditions.
	uses, conds []use
}

// fail records an error in the template.
func (e *evaluation) fail(at int, format string, args ...any) {
	e.errs = append(e.errs, &Problem{Place: fmt.Sprintf("%s:%d", e.template, at), Message: fmt.Sprintf(format, args...)})
}

// refuse records a value that is not allowed in the file, at the place where it was set.
func (e *evaluation) refuse(r ref, at int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	for _, u := range e.uses(r) {
		p := u.leaf.from.problem(u.path, "%s", message)
		p.Message += fmt.Sprintf(" (%s:%d)", e.template, at)
		e.errs = append(e.errs, p)
		return
	}
	e.fail(at, "%s %s", e.name(r), message)
}

func (e *evaluation) run(statements []statement) {
	for _, s := range statements {
		switch s := s.(type) {
		case *text:
			e.note(s.at, nil)
			e.buf = append(e.buf, s.s...)
		case *output:
			e.output(s)
		case *branch:
			mark := len(e.conds)
			if e.truth(&s.cond, s.at) {
				e.run(s.then)
			} else {
				e.run(s.els)
			}
			e.conds = e.conds[:mark]
		case *loop:
			list, secret, ok := e.list(s.ref, s.at)
			if !ok {
				continue
			}
			path := e.full(s.ref)
			for _, v := range list {
				e.items = append(e.items, item{v, secret, path})
				e.run(s.body)
				e.items = e.items[:len(e.items)-1]
			}
		}
	}
}

func (e *evaluation) note(at int, uses []use) {
	if e.traced {
		e.steps = append(e.steps, step{len(e.buf), at, uses, slices.Clone(e.conds)})
	}
}

func (e *evaluation) output(o *output) {
	value, _, ok := e.value(o.ref, o.at)
	if !ok {
		return
	}
	if e.traced {
		e.note(o.at, e.uses(o.ref))
	}
	before := len(e.buf)
	if o.join == nil {
		s, ok := printed(value)
		if !ok {
			e.fail(o.at, "%s is %s, which can't be printed; use join or range, or name a value in it", e.name(o.ref), describe(value))
			return
		}
		e.buf = append(e.buf, s...)
	} else if !e.join(o, value) {
		return
	}
	e.guard(o, before)
}

func (e *evaluation) join(o *output, value any) bool {
	list, ok := value.([]any)
	if !ok {
		e.fail(o.at, "%s is %s, must be a list", e.name(o.ref), describe(value))
		return false
	}
	for i, v := range list {
		s, ok := printed(v)
		if _, isBool := v.(bool); !ok || isBool {
			e.fail(o.at, "%s[%d] is %s; only lists of strings and numbers can be joined", e.name(o.ref), i, describe(v))
			return false
		}
		if i > 0 {
			e.buf = append(e.buf, *o.join...)
		}
		e.buf = append(e.buf, s...)
	}
	return true
}

// value returns the value of a leaf.
func (e *evaluation) value(r ref, at int) (v any, secret, ok bool) {
	if r.item {
		return e.itemValue(r, at)
	}
	n := e.root.find(r.path)
	switch {
	case n == nil:
		e.missing(r, at)
		return nil, false, false
	case !n.leaf():
		e.fail(at, "%s is a mapping; name a value in it", e.name(r))
		return nil, false, false
	}
	return n.content(), n.secret, true
}

func (e *evaluation) itemValue(r ref, at int) (v any, secret, ok bool) {
	top := e.items[len(e.items)-1]
	v = top.value
	for _, key := range r.path {
		object, isObject := v.(map[string]any)
		if v, ok = object[key]; !isObject || !ok {
			e.fail(at, "an item of .%s has no %s: only the item is visible in a range", strings.Join(top.path, "."), r)
			return nil, false, false
		}
	}
	return v, top.secret, true
}

func (e *evaluation) missing(r ref, at int) {
	path := strings.Join(r.path, ".")
	name := e.values.cluster.Declaration.Name
	if _, secret := e.src.secrets[path]; secret {
		e.fail(at, "%s is a secret that is missing: %s has no %s; regiond generates it when it is first needed, so it has been lost: "+
			"restore it, e.g. from a backup", r, secretsPlace(name), path)
		return
	}
	field := e.values.cluster.Field + ".values." + path
	e.errs = append(e.errs, &Problem{Field: field, Place: fmt.Sprintf("%s:%d", e.template, at),
		Message: fmt.Sprintf("%s is not set by any layer; set it in %s%s", r, e.values.cluster.fieldPlace(field), nearLeaf(e.root, r.path))})
}

// nearLeaf suggests an existing value: a sibling of the first missing key.
func nearLeaf(root *node, path []string) string {
	for i, key := range path {
		next := root.children[key]
		if next != nil {
			root = next
			continue
		}
		if c := check.Closest(key, sortedKeys(root.children)); c != "" {
			return fmt.Sprintf("; did you mean .%s?", strings.Join(append(path[:i:i], c), "."))
		}
		break
	}
	return ""
}

func (e *evaluation) list(r ref, at int) (list []any, secret, ok bool) {
	v, secret, ok := e.value(r, at)
	if !ok {
		return nil, false, false
	}
	if list, ok = v.([]any); !ok {
		e.fail(at, "%s is %s, must be a list", e.name(r), describe(v))
	}
	return list, secret, ok
}

// full returns the path of a reference from the root; items of lists have the list's path.
func (e *evaluation) full(r ref) []string {
	if !r.item {
		return r.path
	}
	return append(slices.Clip(e.items[len(e.items)-1].path), r.path...)
}

// name returns the name of a value with its place, for messages.
func (e *evaluation) name(r ref) string {
	if uses := e.uses(r); len(uses) > 0 && uses[0].leaf != nil && uses[0].leaf.from != nil {
		return fmt.Sprintf(".%s (%s)", strings.Join(e.full(r), "."), uses[0].leaf.from.place(uses[0].path))
	}
	return "." + strings.Join(e.full(r), ".")
}

// uses returns the leaf that a reference reads.
func (e *evaluation) uses(r ref) []use {
	path := r.path
	if r.item {
		path = e.items[len(e.items)-1].path
	}
	n := e.root.find(path)
	if n == nil || !n.leaf() {
		return nil
	}
	return []use{{path, n}}
}

// truth evaluates a condition. As in Go and Jinja2, and and or stop once the result is known.
func (e *evaluation) truth(c *condition, at int) bool {
	switch c.op {
	case "and":
		return !slices.ContainsFunc(c.args, func(a condition) bool { return !e.truth(&a, at) })
	case "or":
		return slices.ContainsFunc(c.args, func(a condition) bool { return e.truth(&a, at) })
	case "not":
		return !e.truth(&c.args[0], at)
	case "eq":
		return e.same(c, at)
	case "ne":
		return !e.same(c, at)
	case "defined":
		return e.root.find(c.ref.path) != nil
	}
	v, ok := e.operand(c, at)
	return ok && truth(v)
}

func (e *evaluation) operand(c *condition, at int) (any, bool) {
	if c.ref == nil {
		return c.literal, true
	}
	v, secret, ok := e.value(*c.ref, at)
	if !ok {
		return nil, false
	}
	if secret {
		e.fail(at, "%s is a secret, which conditions can't use: it is not known when the template for External Secrets is written", e.name(*c.ref))
		return nil, false
	}
	if _, isMap := v.(map[string]any); isMap {
		e.fail(at, "%s is a mapping, which is not a condition", e.name(*c.ref))
		return nil, false
	}
	if e.traced {
		e.conds = append(e.conds, e.uses(*c.ref)...)
	}
	return v, true
}

func (e *evaluation) same(c *condition, at int) bool {
	a, okA := e.operand(&c.args[0], at)
	b, okB := e.operand(&c.args[1], at)
	if !okA || !okB {
		return false
	}
	if describe(a) != describe(b) || isList(a) {
		e.fail(at, "%s compares %s with %s", c.op, describe(a), describe(b))
		return false
	}
	return equal(a, b)
}
