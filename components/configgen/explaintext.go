package configgen

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes an explanation for people.
func (e *Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	name := e.Option
	if e.Section != "" {
		name = "[" + e.Section + "] " + e.Option
	}
	for _, l := range e.Lines {
		fmt.Fprintf(&b, "%s %s = %s\n", e.File, name, l.Value)
		if l.Template != "" {
			fmt.Fprintf(&b, "  template  %s:%d\n", l.Template, l.Line)
		} else {
			b.WriteString("  template  none: values add the option\n")
		}
		for _, v := range l.Values {
			v.writeText(&b, "value")
		}
		for _, v := range l.Conditions {
			v.writeText(&b, "because")
		}
	}
	for _, l := range e.Replaced {
		fmt.Fprintf(&b, "  instead   %s, from template %s:%d\n", l.Value, l.Template, l.Line)
		for _, v := range l.Values {
			v.writeText(&b, "of")
		}
	}
	who := "role " + e.Role
	if e.Node != "" {
		who = "node " + e.Node
	}
	fmt.Fprintf(&b, "  for       %s\n", who)
	_, err := io.WriteString(w, b.String())
	return err
}

func (v ExplainedValue) writeText(b *strings.Builder, word string) {
	fmt.Fprintf(b, "  %-8s  %s = %s\n            from %s: %s\n", word, v.Path, v.Value, v.Layer, v.Place)
	for _, lower := range v.Lower {
		fmt.Fprintf(b, "            before %s, from %s: %s\n", lower.Value, lower.Layer, lower.Place)
	}
}
