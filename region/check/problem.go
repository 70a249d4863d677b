package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a region, said so that it can be put right without
// opening the manual: where it is, what was written and what would be right.
type Problem struct {
	// File, Line and Column (both from 1, the column in characters) of the value or field. They are
	// empty for a region that was not read from a file.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Field is the path from the root of the document, e.g. spec.networks.provisioning.dhcp.range.
	// It is empty for problems of the whole file, such as wrong YAML.
	Field string `json:"field,omitempty"`
	// Value that was written, shortened when long. Empty when the problem is that there is none.
	Value string `json:"value,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Suggestion says what would be right.
	Suggestion string `json:"suggestion,omitempty"`
	// Warning says that the region is valid all the same.
	Warning bool `json:"warning,omitempty"`
}

// String is one line in the form that compilers use and editors jump to.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Message)
	if p.Suggestion != "" {
		b.WriteString("; " + p.Suggestion)
	}
	return b.String()
}

// Problems is everything that is wrong with a region, in the order of the file. It is an error
// only when it is not empty; Err converts.
type Problems []Problem

// Error has one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err is nil when there is nothing but warnings.
func (ps Problems) Err() error {
	if ps.Warnings() == len(ps) {
		return nil
	}
	return ps
}

// Warnings counts those that leave the region valid.
func (ps Problems) Warnings() (n int) {
	for _, p := range ps {
		if p.Warning {
			n++
		}
	}
	return n
}

// Summary counts: "region.yaml: 3 problems, 1 warning".
func (ps Problems) Summary(name string) string {
	warnings := ps.Warnings()
	said := "valid"
	if wrong := len(ps) - warnings; wrong > 0 {
		said = counted(wrong, "problem")
	}
	if warnings > 0 {
		said += ", " + counted(warnings, "warning")
	}
	return name + ": " + said
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// WriteText writes one line for each problem.
func (ps Problems) WriteText(w io.Writer) error {
	if len(ps) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, ps.Error())
	return err
}

// WriteJSON writes {"file": name, "valid": bool, "problems": [...]} for editors and CI.
func (ps Problems) WriteJSON(w io.Writer, name string) error {
	list := ps
	if list == nil {
		list = Problems{} // [] and not null
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		File     string   `json:"file"`
		Valid    bool     `json:"valid"`
		Problems Problems `json:"problems"`
	}{name, ps.Err() == nil, list})
}

// Merge joins two lists in the order of the file. Both are checks of the same file.
func (ps Problems) Merge(others Problems) Problems {
	all := slices.Concat(ps, others)
	all.sort()
	return all
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// maxShown bounds how much of a wrong value is repeated in a message, in characters.
const maxShown = 80

// shorten cuts s for messages.
func shorten(s string) string {
	if utf8.RuneCountInString(s) <= maxShown {
		return s
	}
	return string([]rune(s)[:maxShown]) + "…"
}

// quote prepares a written value for a message: quoted, on one line and not longer than maxShown.
func quote(s string) string { return strconv.Quote(shorten(s)) }
