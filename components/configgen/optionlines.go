package configgen

import (
	"slices"
	"strings"
)

// setOption is an option that values set: PROJECT.conf.SECTION.OPTION.
type setOption struct {
	section, name string
	path          []string
	// list gives a line per item.
	list bool
	// maybe is true if not all users of the template set it (Ansible's hosts): the template decides.
	maybe bool
}

// optionsOf returns the options of a project that values set, sorted, and all wrong ones.
func optionsOf(root *node, project string) (options []setOption, wrong []*use) {
	conf := root.find([]string{project, "conf"})
	if conf == nil || conf.leaf() {
		return nil, nil
	}
	conf.leaves([]string{project, "conf"}, func(path []string, leaf *node) {
		if len(path) != 4 {
			wrong = append(wrong, &use{path, leaf})
			return
		}
		options = append(options, setOption{section: path[2], name: optionName(path[3]), path: path, list: isList(leaf.content())})
	})
	return options, wrong
}

// has reports whether the rows have an option, or a section.
func has(rows []row, section, option string) (hasOption, hasSection bool) {
	current := noSection
	var look func(rows []row)
	look = func(rows []row) {
		for _, w := range rows {
			switch w.kind {
			case headerRow:
				current = w.name
				hasSection = hasSection || current == section
			case optionRow:
				hasOption = hasOption || current == section && w.name == option
			case blockRow:
				look(w.then)
				look(w.els)
			}
		}
	}
	look(rows)
	return hasOption, hasSection
}

// setOptions puts the options into the rows: each replaces the line that sets it, else goes to the
// end of its section, else into a new section at the end of the file. Lines within blocks are
// removed.
func setOptions(rows []row, options []setOption) []row {
	added := map[string][]row{}
	for _, o := range options {
		e := &optionEdit{option: o}
		section := noSection
		rows = e.edit(rows, &section, true)
		if e.placed {
			continue
		}
		if i := sectionEnd(rows, o.section); i >= 0 {
			rows = slices.Insert(slices.Clone(rows), i, o.rows(nil)...)
		} else {
			added[o.section] = append(added[o.section], o.rows(nil)...)
		}
	}
	for _, section := range sortedKeys(added) {
		header := "[" + section + "]\n"
		if len(rows) > 0 {
			header = "\n" + header
		}
		head := row{kind: headerRow, name: section, statements: []statement{&text{header, 0}}}
		if c, maybe := anyDefined(options, section); maybe {
			head = row{kind: blockRow, block: &branch{cond: c}, then: []row{head}}
		}
		rows = append(slices.Clip(append(slices.Clip(rows), head)), added[section]...)
	}
	return rows
}

// anyDefined returns the condition under which a new section has any options. maybe is false if it
// always has.
func anyDefined(options []setOption, section string) (c condition, maybe bool) {
	c.op = "or"
	for _, o := range options {
		if o.section != section {
			continue
		}
		if !o.maybe {
			return condition{}, false
		}
		c.args = append(c.args, o.defined())
	}
	return c, true
}

func (o setOption) defined() condition {
	return condition{op: "defined", ref: &ref{path: o.path}}
}

// rows returns the rows that set the option; instead are the rows to use if it is not set.
func (o setOption) rows(instead []row) []row {
	name := o.path[len(o.path)-1] + " = "
	line := row{kind: optionRow, name: o.name, statements: []statement{&text{name, 0}, &output{ref: ref{path: o.path}}, &text{"\n", 0}}}
	if o.list {
		line.statements[1] = &output{ref: ref{item: true}}
		line = row{kind: blockRow, block: &loop{ref: ref{path: o.path}}, then: []row{line}}
	}
	if o.maybe {
		line = row{kind: blockRow, block: &branch{cond: o.defined()}, then: []row{line}, els: instead}
	}
	return []row{line}
}

// optionEdit replaces the lines of one option.
type optionEdit struct {
	option setOption
	placed bool
}

func (e *optionEdit) edit(rows []row, section *string, top bool) []row {
	out := make([]row, 0, len(rows))
	var taken []row
	flush := func() {
		if len(taken) == 0 {
			return
		}
		switch {
		case top && !e.placed:
			e.placed = true
			out = append(out, e.option.rows(taken)...)
		case e.option.maybe:
			not := condition{op: "not", args: []condition{e.option.defined()}}
			out = append(out, row{kind: blockRow, block: &branch{cond: not}, then: taken})
		}
		taken = nil
	}
	for _, w := range rows {
		if w.kind == moreRow && len(taken) > 0 {
			taken = append(taken, w)
			continue
		}
		flush()
		switch w.kind {
		case headerRow:
			*section = w.name
		case optionRow:
			if *section == e.option.section && w.name == e.option.name {
				taken = append(taken, w)
				continue
			}
		case blockRow:
			before := *section
			w.then = e.edit(w.then, section, false)
			after := *section
			*section = before
			w.els = e.edit(w.els, section, false)
			if *section != before || after != before {
				*section = unknown
			}
			if len(w.then)+len(w.els) == 0 {
				continue // it is empty now
			}
		}
		out = append(out, w)
	}
	flush()
	return out
}

// sectionEnd returns the index after the last line of a section outside of blocks, or -1.
func sectionEnd(rows []row, section string) int {
	inside, end := false, -1
	for i, w := range rows {
		switch {
		case w.kind == headerRow:
			if inside {
				return end
			}
			if inside = w.name == section; inside {
				end = i + 1
			}
		case w.kind == blockRow && inside && beginsSection(w):
			return end
		case w.kind != otherRow && inside:
			end = i + 1
		}
	}
	return end
}

func beginsSection(w row) bool {
	starts := func(w row) bool { return w.kind == headerRow || w.kind == blockRow && beginsSection(w) }
	return slices.ContainsFunc(w.then, starts) || slices.ContainsFunc(w.els, starts)
}

// flatten turns rows into statements; adjacent texts of one line of the template are joined.
func flatten(rows []row) []statement {
	var out []statement
	for _, w := range rows {
		switch b := w.block.(type) {
		case nil:
			out = append(out, w.statements...)
		case *branch:
			out = append(out, &branch{b.cond, flatten(w.then), flatten(w.els), b.at})
		case *loop:
			out = append(out, &loop{b.ref, flatten(w.then), b.at})
		}
	}
	return out
}

// shape returns a key that distinguishes sets of options by their effect on templates.
func shape(options []setOption) string {
	var b strings.Builder
	for _, o := range options {
		b.WriteString(strings.Join(o.path, "\x00"))
		if o.list {
			b.WriteString("\x01")
		}
		if o.maybe {
			b.WriteString("\x02")
		}
		b.WriteString("\x03")
	}
	return b.String()
}
