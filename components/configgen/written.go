package configgen

import (
	"fmt"
	"strings"
)

// optionWriter converts an option's value in the tree to text that oslo.config reads back as that
// value.
type optionWriter struct {
	source                    *Source
	release, project, section string
}

// write returns a text, or a list of texts for an option that may be repeated. wrong says why the
// value can't be written.
func (w *optionWriter) write(option string, value any) (written any, wrong string) {
	kind, known := w.source.optionType(w.release, w.project, w.section, option)
	items, isList := value.([]any)
	if !isList {
		s, _ := printed(value) // a leaf that is not a list can be printed
		if wrong := lineBreak(s); wrong != "" {
			return "", wrong
		}
		return w.text(s), ""
	}
	if known && kind.single() {
		return "", fmt.Sprintf("is a list; the option accepts one value: %s", kind.takes())
	}
	if kind == nil {
		kind = &optionType{}
	}
	texts := make([]any, len(items))
	parts := make([]string, len(items))
	for i, item := range items {
		s, ok := printed(item)
		switch {
		case !ok:
			return "", fmt.Sprintf("item %d is %s; an option's items are strings and numbers", i+1, describe(item))
		case lineBreak(s) != "":
			return "", lineBreak(s)
		case kind.Multi:
		case strings.Contains(s, ",") && kind.Items != nil && kind.Items.Quotes:
			s = `"` + s + `"`
		case strings.Contains(s, ","):
			return "", fmt.Sprintf("item %d, %s, has a comma, and oslo.config would split it there", i+1, showValue(item))
		}
		texts[i], parts[i] = w.text(s), s
	}
	if kind.Multi {
		return texts, ""
	}
	s := strings.Join(parts, ",")
	if kind.Bounds {
		s = "[" + s + "]"
	}
	return w.text(s), ""
}

func lineBreak(s string) string {
	if strings.ContainsAny(s, "\n\r") {
		return "has a line break, which would begin another option"
	}
	return ""
}

// text escapes dollars, and quotes values with surrounding white space or quotes, which oslo.config
// would strip (oslo_config/iniparser.py).
func (w *optionWriter) text(s string) string {
	s = escapeDollars(s, w.isOption)
	if s == "" {
		return s
	}
	first, last := s[0], s[len(s)-1]
	if strings.TrimSpace(s) != s || first == last && (first == '"' || first == '\'') {
		return `"` + s + `"`
	}
	return s
}

// isOption reports whether a reference in the section resolves to an option: in the same section,
// in DEFAULT, or SECTION.OPTION.
func (w *optionWriter) isOption(name string) bool {
	sections := w.source.options[w.release][w.project]
	if section, option, dotted := strings.Cut(name, "."); dotted {
		return sections[section].has(option)
	}
	return sections[w.section].has(name) || sections["DEFAULT"].has(name)
}

// readOption returns the value that oslo.config reads from an option's text. refers reports whether
// it depends on another option.
func readOption(text string) (value string, refers bool) {
	if n := len(text); n > 1 && text[0] == text[n-1] && (text[0] == '"' || text[0] == '\'') {
		text = text[1 : n-1]
	}
	return unescapeDollars(text)
}
