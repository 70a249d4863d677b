package configgen

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// A template is a list of statements, the subset of Go's template language that translates to
// Jinja2 without loss.
type (
	statement interface{ line() int }
	// text is copied unchanged.
	text struct {
		s  string
		at int
	}
	// output prints a value.
	output struct {
		ref ref
		// join is the separator of a list's items; nil to print the value itself.
		join *string
		at   int
	}
	// branch is if, else if and else.
	branch struct {
		cond      condition
		then, els []statement
		at        int
	}
	// loop is range over a list.
	loop struct {
		ref  ref
		body []statement
		at   int
	}
)

func (t *text) line() int   { return t.at }
func (o *output) line() int { return o.at }
func (b *branch) line() int { return b.at }
func (l *loop) line() int   { return l.at }

// ref names a value, from the root of the tree or, in a range, from the item.
type ref struct {
	path []string
	item bool
}

func (r ref) String() string { return "." + strings.Join(r.path, ".") }

// condition is an operation on conditions, the truth of a value, or a literal.
type condition struct {
	// op is eq, ne, and, or, not, defined (set by any layer; only created for option lines), or "" for
	// a value or literal.
	op   string
	args []condition
	// ref is the value if op is "" or defined; if it is nil, literal (string, int64 or bool) is used.
	ref     *ref
	literal any
}

const allowed = `allowed are {{ .a.b }}, {{ join .list "," }}, if/else if/else/end with eq, ne, and, or, not, and range over a list`

// languageFunctions are the functions that templates may call; the parser refuses others.
var languageFunctions = map[string]any{"eq": 0, "ne": 0, "and": 0, "or": 0, "not": 0, "join": 0}

// parseTemplate parses a template and reports everything that the language does not allow.
func parseTemplate(name, source string) ([]statement, error) {
	if i := strings.IndexAny(source, "\r\x00"); i >= 0 {
		return nil, fmt.Errorf("%s:%d: has a carriage return or a NUL character; lines end with a line feed", name, 1+strings.Count(source[:i], "\n"))
	}
	set := map[string]*parse.Tree{}
	tree, err := parse.New(name).Parse(source, "", "", set, languageFunctions)
	if err != nil {
		return nil, fmt.Errorf("%s; %s", strings.TrimPrefix(err.Error(), "template: "), allowed)
	}
	r := &templateReader{name: name, source: source}
	if len(set) > 1 {
		r.errs = append(r.errs, fmt.Errorf("%s:1: define and block are not part of the language; %s", name, allowed))
	}
	if tree.Root == nil {
		return nil, errors.Join(r.errs...)
	}
	statements := r.list(tree.Root, false)
	return statements, errors.Join(r.errs...)
}

// deepest is the maximum nesting of blocks. Deeper nesting is unreadable, and doubles the work of
// parseRows per level.
const deepest = 8

type templateReader struct {
	name, source string
	depth        int
	errs         []error
}

func (r *templateReader) at(n parse.Node) int {
	return 1 + strings.Count(r.source[:min(int(n.Position()), len(r.source))], "\n")
}

func (r *templateReader) refuse(n parse.Node, why string) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s: %s; %s", r.name, r.at(n), strings.TrimSpace(firstLine(n.String())), why, allowed))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (r *templateReader) list(l *parse.ListNode, inLoop bool) []statement {
	if l == nil {
		return nil
	}
	if r.depth++; r.depth > deepest+1 {
		r.refuse(l, fmt.Sprintf("blocks are nested more than %d deep", deepest))
		return nil
	}
	defer func() { r.depth-- }()
	out := make([]statement, 0, len(l.Nodes))
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			if len(n.Text) > 0 {
				out = append(out, &text{string(n.Text), r.at(n)})
			}
		case *parse.ActionNode:
			if o := r.action(n, inLoop); o != nil {
				out = append(out, o)
			}
		case *parse.IfNode:
			out = append(out, &branch{r.pipe(n.Pipe, inLoop), r.list(n.List, inLoop), r.list(n.ElseList, inLoop), r.at(n.Pipe)})
		case *parse.RangeNode:
			cmd := r.command(n.Pipe)
			if cmd == nil {
				continue
			}
			over, ok := r.ref(cmd.Args[0], inLoop)
			if !ok || len(cmd.Args) != 1 || n.ElseList != nil {
				r.refuse(n, "range takes one list and has no else")
				continue
			}
			out = append(out, &loop{over, r.list(n.List, true), r.at(n.Pipe)})
		case *parse.CommentNode:
		default:
			r.refuse(n, "is not part of the language")
		}
	}
	return out
}

// command returns the only command of a pipeline.
func (r *templateReader) command(p *parse.PipeNode) *parse.CommandNode {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 {
		r.refuse(p, "variables and pipelines are not part of the language")
		return nil
	}
	return p.Cmds[0]
}

func (r *templateReader) action(n *parse.ActionNode, inLoop bool) statement {
	cmd := r.command(n.Pipe)
	if cmd == nil {
		return nil
	}
	if id, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
		if id.Ident == "join" && len(cmd.Args) == 3 {
			list, isRef := r.ref(cmd.Args[1], inLoop)
			separator, isString := cmd.Args[2].(*parse.StringNode)
			if isRef && isString {
				return &output{list, &separator.Text, r.at(n)}
			}
		}
		r.refuse(n, "only a value or a joined list can be printed")
		return nil
	}
	value, ok := r.ref(cmd.Args[0], inLoop)
	if !ok || len(cmd.Args) != 1 {
		r.refuse(n, "only a value or a joined list can be printed")
		return nil
	}
	return &output{value, nil, r.at(n)}
}

func (r *templateReader) ref(n parse.Node, inLoop bool) (ref, bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		return ref{n.Ident, inLoop}, true
	case *parse.DotNode:
		return ref{nil, inLoop}, inLoop // outside of a range, "." is the whole tree
	}
	return ref{}, false
}

// pipe reads a condition.
func (r *templateReader) pipe(p *parse.PipeNode, inLoop bool) condition {
	cmd := r.command(p)
	if cmd == nil {
		return condition{}
	}
	id, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok {
		if len(cmd.Args) != 1 {
			r.refuse(p, "is not a condition")
			return condition{}
		}
		return r.operand(cmd.Args[0], inLoop, false)
	}
	c := condition{op: id.Ident}
	for _, a := range cmd.Args[1:] {
		c.args = append(c.args, r.operand(a, inLoop, c.op == "eq" || c.op == "ne"))
	}
	switch n := len(c.args); {
	case c.op == "not" && n == 1, (c.op == "eq" || c.op == "ne") && n == 2, (c.op == "and" || c.op == "or") && n >= 2:
	default:
		r.refuse(p, "is not a condition: not takes one argument, eq and ne take two, and and or two or more")
	}
	return c
}

func (r *templateReader) operand(n parse.Node, inLoop, compared bool) condition {
	if value, ok := r.ref(n, inLoop); ok {
		return condition{ref: &value}
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		if !compared {
			return r.pipe(n, inLoop)
		}
	case *parse.StringNode:
		if compared {
			return condition{literal: n.Text}
		}
	case *parse.BoolNode:
		if compared {
			return condition{literal: n.True}
		}
	case *parse.NumberNode:
		if compared && n.IsInt {
			return condition{literal: n.Int64}
		}
	}
	r.refuse(n, "is not allowed here; eq and ne compare values, strings, integers, true and false")
	return condition{}
}

// refs calls f for every value that statements use, from the root of the tree.
func refs(statements []statement, f func(r ref, at int)) {
	one := func(r ref, at int) {
		if !r.item {
			f(r, at)
		}
	}
	for _, s := range statements {
		switch s := s.(type) {
		case *output:
			one(s.ref, s.at)
		case *loop:
			one(s.ref, s.at)
			refs(s.body, f)
		case *branch:
			s.cond.refs(func(r ref) { one(r, s.at) })
			refs(s.then, f)
			refs(s.els, f)
		}
	}
}

func (c condition) refs(f func(ref)) {
	if c.ref != nil {
		f(*c.ref)
	}
	for _, a := range c.args {
		a.refs(f)
	}
}
