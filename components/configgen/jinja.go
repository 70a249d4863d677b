package configgen

import (
	"fmt"
	"strings"
)

// jinja writes a template in Jinja2, with trim_blocks off, because Go's templates keep line breaks,
// too.
type jinja struct {
	b strings.Builder
	// variable returns the name of a value of the tree, e.g. openstack['nova']['debug'].
	variable func(path []string) string
	// boolean reports whether a value, or an item of a list, may be a boolean, which Python prints
	// capitalized.
	boolean func(path []string) bool
	// loops are the enclosing loops, by whether their items may be booleans; items are item1, item2, …
	loops []bool
	// literal is the text since the last tag.
	literal string
}

// translate returns a Jinja2 template.
func translate(list []statement, variable func(path []string) string, boolean func(path []string) bool) string {
	j := &jinja{variable: variable, boolean: boolean}
	j.list(list)
	// Jinja2 drops the line break at the end of a template. Ansible restores it if the result ends
	// with fewer line breaks than the template: right after a word, but not after a value or a block
	// that may itself end with one.
	if rest, ok := strings.CutSuffix(j.literal, "\n"); ok && strings.Trim(rest, "\n") == "" {
		j.literal = rest
		j.tag(`{{ '\n' }}`)
	}
	j.flush()
	return j.b.String()
}

func (j *jinja) list(list []statement) {
	for _, s := range list {
		switch s := s.(type) {
		case *text:
			j.literal += s.s
		case *output:
			j.tag("{{ " + j.print(s) + " }}")
		case *loop:
			list, booleans := j.name(s.ref), j.mayBeBoolean(s.ref)
			j.loops = append(j.loops, booleans)
			j.tag(fmt.Sprintf("{%% for item%d in %s %%}", len(j.loops), list))
			j.list(s.body)
			j.loops = j.loops[:len(j.loops)-1]
			j.tag("{% endfor %}")
		case *branch:
			j.branch(s, "if")
			j.tag("{% endif %}")
		}
	}
}

func (j *jinja) branch(b *branch, word string) {
	j.tag("{% " + word + " " + j.condition(b.cond) + " %}")
	j.list(b.then)
	if len(b.els) == 0 {
		return
	}
	if next, ok := b.els[0].(*branch); ok && len(b.els) == 1 {
		j.branch(next, "elif")
		return
	}
	j.tag("{% else %}")
	j.list(b.els)
}

func (j *jinja) tag(tag string) {
	j.flush()
	j.b.WriteString(tag)
}

// flush writes the pending text. A brace that begins a tag, or may do so with what follows, is
// printed by a tag.
func (j *jinja) flush() {
	for i, c := range []byte(j.literal) {
		if c == '{' && (i+1 == len(j.literal) || strings.IndexByte("{%#", j.literal[i+1]) >= 0) {
			j.b.WriteString("{{ '{' }}")
		} else {
			j.b.WriteByte(c)
		}
	}
	j.literal = ""
}

func (j *jinja) print(o *output) string {
	name := j.name(o.ref)
	switch {
	case o.join != nil:
		return fmt.Sprintf("%s | join(%s)", name, quoted(*o.join))
	case j.mayBeBoolean(o.ref):
		return fmt.Sprintf("%s | lower if %s is boolean else %s", name, name, name)
	}
	return name
}

func (j *jinja) mayBeBoolean(r ref) bool {
	if r.item {
		return j.loops[len(j.loops)-1]
	}
	return j.boolean(r.path)
}

func (j *jinja) name(r ref) string {
	if !r.item {
		return j.variable(r.path)
	}
	return fmt.Sprintf("item%d", len(j.loops)) + subscripts(r.path)
}

// subscripts returns subscripts rather than dots, because a dot would find Python's methods, e.g.
// items, first.
func subscripts(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString("[" + quoted(key) + "]")
	}
	return b.String()
}

// quoted returns a string literal of Jinja2, which has Python's escapes.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}

func (j *jinja) condition(c condition) string {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		if args[i] = j.condition(a); a.op != "" {
			args[i] = "(" + args[i] + ")"
		}
	}
	switch c.op {
	case "eq":
		return args[0] + " == " + args[1]
	case "ne":
		return args[0] + " != " + args[1]
	case "not":
		return "not " + args[0]
	case "and", "or":
		return strings.Join(args, " "+c.op+" ")
	case "defined":
		return j.variable(c.ref.path) + " is defined" // Ansible allows stepping into undefined values
	}
	if c.ref != nil {
		return j.name(*c.ref)
	}
	if s, isString := c.literal.(string); isString {
		return quoted(s)
	}
	s, _ := printed(c.literal) // a number or a boolean, which Jinja2 accepts in lower case
	return s
}
