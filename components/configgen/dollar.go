package configgen

import (
	"regexp"
	"strings"
)

// optionReference matches a reference in a value that oslo.config replaces with the value of
// another option (oslo_config/cfg.py, ConfigOpts.Template).
var optionReference = regexp.MustCompile(`^\$(?:\{([_a-zA-Z][._a-zA-Z0-9]*)\}|([_a-zA-Z][._a-zA-Z0-9]*))`)

// referenceAt returns the name of the option that a text refers to at an offset, and the
// reference's length.
func referenceAt(text string, i int) (name string, length int) {
	m := optionReference.FindStringSubmatch(text[i:])
	if m == nil {
		return "", 0
	}
	return m[1] + m[2], len(m[0])
}

// escapeDollars escapes a text so that it reaches the service as written: oslo.config reads both $$
// and \$ as a dollar. A dollar at the beginning of a word is left alone if an option's name
// follows, as in $my_ip and ${state_path}/x: it refers to that option. $$my_ip gives the literal
// text $my_ip.
func escapeDollars(text string, isOption func(name string) bool) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' {
			b.WriteByte(text[i])
			continue
		}
		if !inWord(text, i) {
			second := i
			if strings.HasPrefix(text[i:], "$$") {
				second++
			}
			if name, length := referenceAt(text, second); length > 0 && isOption(name) {
				b.WriteString(text[i : second+length])
				i = second + length - 1
				continue
			}
		}
		if i > 0 && text[i-1] == '\\' {
			b.WriteString(`\$`) // $$ would be read as a dollar escaped by the backslash, followed by another dollar
		} else {
			b.WriteString("$$")
		}
	}
	return b.String()
}

// inWord reports whether the character before an offset belongs to the same word.
func inWord(text string, i int) bool {
	if i == 0 {
		return false
	}
	c := text[i-1]
	return c == '$' || c == '\\' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// unescapeDollars reads a text as oslo.config does. refers reports whether it refers to another
// option.
func unescapeDollars(text string) (value string, refers bool) {
	text = strings.ReplaceAll(text, `\$`, "$$")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		b.WriteByte(text[i])
		if text[i] != '$' {
			continue
		}
		if strings.HasPrefix(text[i:], "$$") {
			i++
		} else if _, length := referenceAt(text, i); length > 0 {
			refers = true
		}
	}
	return b.String(), refers
}
