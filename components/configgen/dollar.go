package configgen

import (
	"regexp"
	"strings"
)

// optionReference is what oslo.config replaces in a value by that of another option (oslo_config/cfg.py, ConfigOpts.Template).
var optionReference = regexp.MustCompile(`^\$(?:\{([_a-zA-Z][._a-zA-Z0-9]*)\}|([_a-zA-Z][._a-zA-Z0-9]*))`)

// referenceAt is the name of the option that a text refers to at an offset, and the reference's length.
func referenceAt(text string, i int) (name string, length int) {
	m := optionReference.FindStringSubmatch(text[i:])
	if m == nil {
		return "", 0
	}
	return m[1] + m[2], len(m[0])
}

// escapeDollars makes a text arrive at the service as it was written: oslo.config reads $$ as a
// dollar, and \$ as well. A dollar at the beginning of a word is left alone if an option's name
// follows, as in $my_ip and ${state_path}/x: it stands for that option. $$my_ip writes such a name
// out.
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
			b.WriteString(`\$`) // $$ would be read as: a dollar that was escaped by the backslash, and another one
		} else {
			b.WriteString("$$")
		}
	}
	return b.String()
}

// inWord reports whether what is before an offset belongs to the same word.
func inWord(text string, i int) bool {
	if i == 0 {
		return false
	}
	c := text[i-1]
	return c == '$' || c == '\\' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// unescapeDollars reads a text as oslo.config does. refers reports whether another option's value goes into it.
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
