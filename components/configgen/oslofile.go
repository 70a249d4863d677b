package configgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// row is a line, or a block of lines, of an oslo.config file. Files are parsed into rows so that an
// option's line can be replaced in the template before rendering, and therefore for every target.
type row struct {
	kind rowKind
	// name of a section (headerRow; "" if the template computes it) or of an option (optionRow), with
	// _ for -.
	name string
	// statements of a line, including its line break.
	statements []statement
	// block is an if or range around whole lines (blockRow); then and els are its rows.
	block     statement
	then, els []row
	at        int
}

type rowKind int

const (
	otherRow  rowKind = iota // blank or a comment
	headerRow                // [section]
	optionRow                // option = value
	moreRow                  // continues the value of the previous line
	blockRow
)

// parseRows parses a template into rows of an oslo.config file.
func parseRows(name string, statements []statement) ([]row, error) {
	r := &rowReader{name: name}
	rows := r.rows(wholeLines(statements, false))
	r.sections(rows, noSection)
	return rows, errors.Join(r.errs...)
}

type rowReader struct {
	name string
	errs []error
}

func (r *rowReader) fail(at int, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.name, at, fmt.Sprintf(format, args...)))
}

// hasLines reports whether a statement's output contains line breaks.
func hasLines(s statement) bool {
	switch s := s.(type) {
	case *text:
		return strings.Contains(s.s, "\n")
	case *branch:
		return slices.ContainsFunc(s.then, hasLines) || slices.ContainsFunc(s.els, hasLines)
	case *loop:
		return slices.ContainsFunc(s.body, hasLines)
	}
	return false
}

// wholeLines moves the line break at the beginning of a block (as {{- if }} leaves it) before the
// block, and the line break after the block to its end. The output is the same, but the block then
// encloses whole lines. It works backwards, because blocks may follow each other. before reports
// whether a line has begun.
func wholeLines(list []statement, before bool) []statement {
	list = slices.Clone(list)
	for i := len(list) - 1; i >= 0; i-- {
		if _, isText := list[i].(*text); isText || !hasLines(list[i]) || !open(list[:i], before) {
			continue
		}
		list[i] = mapped(list[i], func(body []statement) []statement { return wholeLines(body, true) })
		next, isText := at(list, i+1).(*text)
		if !isText || !strings.HasPrefix(next.s, "\n") || !movable(list[i:i+1]) {
			continue
		}
		list[i] = mapped(list[i], moved)
		list[i+1] = &text{next.s[1:], next.at + 1}
		list = slices.Insert(list, i, statement(&text{"\n", list[i].line()}))
	}
	for i, s := range list {
		list[i] = mapped(s, func(body []statement) []statement { return wholeLines(body, open(list[:i], before)) })
	}
	return list
}

// mapped returns a block with its bodies mapped by f.
func mapped(s statement, f func([]statement) []statement) statement {
	switch s := s.(type) {
	case *branch:
		return &branch{s.cond, f(s.then), f(s.els), s.at}
	case *loop:
		return &loop{s.ref, f(s.body), s.at}
	}
	return s
}

func at(list []statement, i int) statement {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// open reports whether a line may be unfinished after the statements.
func open(list []statement, before bool) bool {
	for _, s := range list {
		switch s := s.(type) {
		case *text:
			if s.s != "" {
				before = !strings.HasSuffix(s.s, "\n")
			}
		case *output:
			before = true
		case *branch:
			before = open(s.then, before) || open(s.els, before)
		case *loop:
			before = before || open(s.body, before)
		}
	}
	return before
}

// movable reports whether the output of the statements is always empty or begins with a line break.
func movable(body []statement) bool {
	if len(body) == 0 {
		return true
	}
	switch s := body[0].(type) {
	case *text:
		return strings.HasPrefix(s.s, "\n")
	case *branch:
		return len(body) == 1 && movable(s.then) && movable(s.els)
	case *loop:
		return len(body) == 1 && movable(s.body)
	}
	return false
}

// moved moves the line break from the beginning to the end.
func moved(body []statement) []statement {
	if len(body) == 0 {
		return nil
	}
	first, isText := body[0].(*text)
	if !isText {
		return []statement{mapped(body[0], moved)}
	}
	out := make([]statement, 0, len(body)+1)
	if first.s != "\n" {
		out = append(out, &text{first.s[1:], first.at + 1})
	}
	out = append(out, body[1:]...)
	if n := len(out); n > 0 {
		if last, ok := out[n-1].(*text); ok {
			out[n-1] = &text{last.s + "\n", last.at}
			return out
		}
	}
	return append(out, &text{"\n", first.at})
}

// rows splits statements at line breaks.
func (r *rowReader) rows(list []statement) []row {
	var rows []row
	var line []statement
	end := func() {
		if len(line) > 0 {
			rows = append(rows, r.row(line))
			line = nil
		}
	}
	for _, s := range list {
		t, isText := s.(*text)
		switch {
		case isText:
			at := t.at
			for part := range strings.Lines(t.s) {
				line = append(line, &text{part, at})
				if strings.HasSuffix(part, "\n") {
					end()
					at++
				}
			}
		case !hasLines(s):
			line = append(line, s)
		default:
			if len(line) > 0 {
				r.fail(s.line(), "this block has whole lines, but begins in the middle of one; begin it on a line of its own")
			}
			end()
			b := row{kind: blockRow, block: s, at: s.line()}
			switch s := s.(type) {
			case *branch:
				b.then, b.els = r.rows(s.then), r.rows(s.els)
			case *loop:
				b.then = r.rows(s.body)
			}
			rows = append(rows, b)
		}
	}
	if len(line) > 0 {
		r.fail(line[0].line(), "the file, or a block of whole lines, does not end with a line break")
	}
	end()
	return rows
}

// row reads one line.
func (r *rowReader) row(line []statement) row {
	out := row{statements: line, at: line[0].line()}
	first, ok := line[0].(*text)
	if !ok {
		r.fail(out.at, "the name of a section or an option must not be computed by the template")
		return out
	}
	s := strings.TrimSuffix(first.s, "\n")
	switch {
	case strings.TrimSpace(s) == "" && len(line) == 1, strings.HasPrefix(s, "#"), strings.HasPrefix(s, ";"):
	case s[0] == ' ' || s[0] == '\t':
		out.kind = moreRow
	case s[0] == '[':
		out.kind = headerRow
		if name, _, closed := strings.Cut(s[1:], "]"); closed {
			out.name = name
		}
	default:
		i := strings.IndexAny(s, "=:")
		if i < 0 {
			r.fail(out.at, "%q is neither a section, an option nor a comment", s)
			return out
		}
		out.kind, out.name = optionRow, optionName(s[:i])
	}
	return out
}

// optionName returns an option's name as in the release's data: oslo treats - as _.
func optionName(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "-", "_") }

// noSection is before the first header, unknown after a block that may have begun another section.
// Neither is a valid section name.
const noSection, unknown = "\n", "\n\n"

// sections refuses options whose section depends on a condition, and returns the section after the
// rows.
func (r *rowReader) sections(rows []row, section string) string {
	for _, w := range rows {
		switch w.kind {
		case headerRow:
			section = w.name
		case optionRow:
			switch section {
			case noSection:
				r.fail(w.at, "option %s comes before the first [section]", w.name)
			case unknown:
				r.fail(w.at, "the section of %s depends on the block above; begin a [section] after the block", w.name)
			}
		case blockRow:
			a, b := r.sections(w.then, section), r.sections(w.els, section)
			if a != section || b != section {
				section = unknown
			}
		}
	}
	return section
}
