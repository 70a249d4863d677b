package configgen

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"regiond.dev/regiond/region/check"
)

// Explanation says where a line of a file comes from.
type Explanation struct {
	// File that was rendered, for a role and, if the role is compute, for a node.
	File string `json:"file"`
	Role string `json:"role"`
	Node string `json:"node,omitempty"`
	// Section is empty for files that are not read by oslo.config.
	Section string `json:"section,omitempty"`
	Option  string `json:"option"`
	// Lines that were rendered: several for an option that may be repeated.
	Lines []ExplainedLine `json:"lines"`
	// Replaced are the template's own lines for an option that values below conf set.
	Replaced []ExplainedLine `json:"replaced,omitempty"`
}

// ExplainedLine is one rendered line.
type ExplainedLine struct {
	Value string `json:"value"`
	// Template and Line that rendered it, e.g. openstack/nova/nova.conf, which begins with the name of
	// the Templates. Empty for an option that only values set.
	Template string `json:"template,omitempty"`
	Line     int    `json:"line,omitempty"`
	// Values that were printed in it, and Conditions' values around it.
	Values     []ExplainedValue `json:"values,omitempty"`
	Conditions []ExplainedValue `json:"conditions,omitempty"`
}

// ExplainedValue is a value of the tree with the layer that set it.
type ExplainedValue struct {
	Path string `json:"path"`
	// Value as in messages; "a secret" for secrets.
	Value  string `json:"value"`
	Secret bool   `json:"secret,omitempty"`
	Layer  string `json:"layer"`
	Place  string `json:"place"`
	// Lower are the values of weaker layers, strongest first.
	Lower []ExplainedValue `json:"lower,omitempty"`
}

// Explain says where an option of a role's file comes from. name is the file's path or its last
// part, option is SECTION.OPTION or, for files that are not read by oslo.config, the first word of
// a line.
func (s *Source) Explain(v *Values, role, name, option string) (*Explanation, error) {
	list := s.filesOf(role)
	i := slices.IndexFunc(list, func(f *file) bool { return f.named(name) })
	if i < 0 {
		return nil, fmt.Errorf("role %s has no file %s%s", role, name, s.nearFile(list, name))
	}
	f, root := list[i], v.inRole(role)
	templates, errs := s.templates(list, root, role)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	e := s.evaluation(f, v, root)
	e.traced = true
	e.run(templates[i])
	if len(e.errs) > 0 {
		return nil, errors.Join(e.errs...)
	}
	out := &Explanation{File: f.Path, Role: role, Node: v.node, Option: option}
	lines := words(e.buf)
	if f.Options != "" {
		if out.Section, out.Option, _ = strings.Cut(option, "."); out.Option == "" {
			return nil, fmt.Errorf("%q is not SECTION.OPTION, e.g. DEFAULT.debug", option)
		}
		lines = slices.Collect(options(e.buf))
	}
	for _, line := range lines {
		if line.section == out.Section && optionName(line.option) == optionName(out.Option) {
			l := e.explain(f, line.offset, line.end)
			l.Value = line.value
			out.Lines = append(out.Lines, l)
		}
	}
	if len(out.Lines) == 0 {
		return nil, s.missingOption(f, v.release, out, lines)
	}
	if f.Options != "" && out.Lines[0].Template == "" {
		out.Replaced = s.replaced(f, v, root, role, out)
	}
	return out, nil
}

// ExplainPods is Explain for a file of pods. Of the roles that have the file, the first that has
// the option is meant.
func (s *Source) ExplainPods(v *Values, name, option string) (*Explanation, error) {
	roles := s.RolesOf(name)
	pods := slices.DeleteFunc(slices.Clone(roles), func(role string) bool { return role == RoleCompute })
	switch {
	case len(roles) == 0:
		return nil, fmt.Errorf("no role has a file %s; roles are %s", name, strings.Join(s.Roles(), ", "))
	case len(pods) == 0:
		return nil, fmt.Errorf("%s is a file of compute hosts; name one by --node", name)
	}
	var errs []error
	for _, role := range pods {
		e, err := s.Explain(v, role, name, option)
		if err == nil {
			return e, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// replaced returns the lines that the template alone would render for an option.
func (s *Source) replaced(f *file, v *Values, root *node, role string, of *Explanation) (lost []ExplainedLine) {
	e := s.evaluation(f, v, root)
	e.traced = true
	e.run(f.statements[role])
	for line := range options(e.buf) {
		if line.section == of.Section && optionName(line.option) == optionName(of.Option) {
			l := e.explain(f, line.offset, line.end)
			l.Value = line.value
			lost = append(lost, l)
		}
	}
	return lost
}

// FilesOf returns the paths of a role's files.
func (s *Source) FilesOf(role string) []string {
	list := s.filesOf(role)
	paths := make([]string, len(list))
	for i, f := range list {
		paths[i] = f.Path
	}
	return paths
}

// Files of all roles, by their paths, sorted.
func (s *Source) Files() []string {
	var paths []string
	for _, role := range s.Roles() {
		paths = append(paths, s.FilesOf(role)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// RolesOf returns the roles that get a file of this name, sorted.
func (s *Source) RolesOf(name string) (roles []string) {
	for _, role := range s.Roles() {
		if slices.ContainsFunc(s.filesOf(role), func(f *file) bool { return f.named(name) }) {
			roles = append(roles, role)
		}
	}
	return roles
}

func (f *file) named(name string) bool {
	return f.Path == name || strings.HasSuffix(f.Path, "/"+strings.TrimPrefix(name, "/"))
}

func (s *Source) nearFile(list []*file, name string) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = path.Base(f.Path)
	}
	if c := check.Closest(path.Base(name), names); c != "" {
		return fmt.Sprintf("; did you mean %s?", c)
	}
	return "; it has " + strings.Join(names, ", ")
}

// words reads a file of any format: an option is the first word of a line, its value the rest.
func words(content []byte) (lines []optionLine) {
	offset := 0
	for line := range strings.Lines(string(content)) {
		begin := offset
		offset += len(line)
		s := strings.TrimSpace(line)
		end := strings.IndexAny(s, "=: \t")
		if s == "" || s[0] == '#' || end < 0 {
			continue
		}
		lines = append(lines, optionLine{"", s[:end], strings.Trim(s[end:], "=: \t"), begin, offset})
	}
	return lines
}

// between returns the steps that rendered the output between two offsets.
func (e *evaluation) between(begin, end int) (steps []step) {
	for i, st := range e.steps {
		next := len(e.buf)
		if i+1 < len(e.steps) {
			next = e.steps[i+1].offset
		}
		if st.offset >= end || next <= begin && len(st.uses) == 0 || next < begin || st.offset < begin && next == begin {
			continue
		}
		steps = append(steps, st)
	}
	return steps
}

// usesBetween returns the values printed between two offsets, and those of the enclosing
// conditions.
func (e *evaluation) usesBetween(begin, end int) (values, conds []use) {
	for _, st := range e.between(begin, end) {
		values = append(values, st.uses...)
		conds = append(conds, st.conds...)
	}
	return values, conds
}

// explain explains the output between two offsets.
func (e *evaluation) explain(f *file, begin, end int) ExplainedLine {
	l := ExplainedLine{}
	for _, st := range e.between(begin, end) {
		if st.line > 0 && l.Line == 0 {
			l.Template = f.place
			l.Line = st.line
			if st.offset < begin { // a text with several lines
				l.Line += strings.Count(string(e.buf[st.offset:begin]), "\n")
			}
		}
	}
	values, conds := e.usesBetween(begin, end)
	seen := map[*node]bool{}
	l.Values = explained(values, seen)
	l.Conditions = explained(conds, seen)
	return l
}

func explained(uses []use, seen map[*node]bool) (out []ExplainedValue) {
	for _, u := range uses {
		if seen[u.leaf] {
			continue
		}
		seen[u.leaf] = true
		v := explainedValue(u.path, u.leaf)
		for lower := u.leaf.lower; lower != nil; lower = lower.lower {
			v.Lower = append(v.Lower, explainedValue(u.path, lower))
		}
		out = append(out, v)
	}
	return out
}

func explainedValue(path []string, leaf *node) ExplainedValue {
	return ExplainedValue{Path: strings.Join(path, "."), Value: show(leaf), Secret: leaf.secret, Layer: leaf.from.name, Place: leaf.from.place(path)}
}

// missingOption explains why a file does not have an option, and suggests one.
func (s *Source) missingOption(f *file, release string, e *Explanation, lines []optionLine) error {
	what := e.Option
	if f.Options != "" {
		what = "[" + e.Section + "] " + e.Option
	}
	var near []string
	for _, line := range lines {
		if line.section == e.Section {
			near = append(near, line.option)
		}
	}
	hint := ""
	sections := s.options[release][f.Options]
	switch c := check.Closest(e.Option, near); {
	case sections[e.Section].has(optionName(e.Option)):
		hint = fmt.Sprintf("; the release has it; set it with %s.conf.%s.%s", f.Options, e.Section, e.Option)
	case c != "":
		hint = fmt.Sprintf("; did you mean %s?", strings.TrimPrefix(e.Section+"."+c, "."))
	case sections != nil:
		hint = fmt.Sprintf(", and %s of %s has none%s", f.Options, release, s.suggestOption(f.Options, release, e.Section, optionName(e.Option)))
	}
	return fmt.Errorf("%s sets no %s%s", f.Path, what, hint)
}

// setBy places a problem of a rendered line at its origin: the operator's value, else the template.
func (s *Source) setBy(f *file, statements []statement, v *Values, root *node, found finding) *Problem {
	e := s.evaluation(f, v, root)
	e.traced = true
	e.run(statements)
	uses, _ := e.usesBetween(found.offset, found.end)
	for _, u := range uses {
		if u.leaf.from.operator {
			return u.leaf.from.problem(u.path, "")
		}
	}
	l := e.explain(f, found.offset, found.end)
	return &Problem{Place: fmt.Sprintf("%s:%d", f.place, max(l.Line, 1))}
}
