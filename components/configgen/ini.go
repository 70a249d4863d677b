package configgen

import (
	"bytes"
	"iter"
	"strings"
)

// optionLine is an option in a rendered file.
type optionLine struct {
	section, option, value string
	// offset and end of its first line in the file.
	offset, end int
}

// options reads a file as oslo.config does (oslo_config/iniparser.py): lines that begin with white
// space continue the previous value, and a key ends at the first = or :.
func options(content []byte) iter.Seq[optionLine] {
	return func(yield func(optionLine) bool) {
		section, offset := "", 0
		for line := range bytes.Lines(content) {
			begin := offset
			offset += len(line)
			s := strings.TrimSuffix(string(line), "\n")
			switch {
			case strings.TrimSpace(s) == "" || s[0] == '#' || s[0] == ';' || s[0] == ' ' || s[0] == '\t':
			case s[0] == '[':
				section, _, _ = strings.Cut(s[1:], "]")
			default:
				key, value := s, ""
				if i := strings.IndexAny(s, "=:"); i >= 0 {
					key, value = s[:i], s[i+1:]
				}
				if !yield(optionLine{section, strings.TrimSpace(key), strings.TrimSpace(value), begin, offset}) {
					return
				}
			}
		}
	}
}
