package unit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Split splits a value into words as systemd.syntax(7) has it: whitespace separates, quotes keep
// together, and C escapes are read.
func Split(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			text, n, err := escape(s[i+1:])
			if err != nil {
				return nil, err
			}
			word.WriteString(text)
			in = true
			i += n
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case (c == '"' || c == '\'') && !in:
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// escape reads what follows a backslash and says how many bytes that was.
func escape(s string) (string, int, error) {
	if s == "" {
		return "", 0, errors.New(`the value ends with \`)
	}
	switch s[0] {
	case 'n':
		return "\n", 1, nil
	case 't':
		return "\t", 1, nil
	case 'r':
		return "\r", 1, nil
	case 's':
		return " ", 1, nil
	case '\\', '"', '\'', ';':
		return s[:1], 1, nil
	case 'x':
		if len(s) >= 3 {
			if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil && n != 0 {
				return string([]byte{byte(n)}), 3, nil
			}
		}
		return "", 0, fmt.Errorf(`\%s is not an escape sequence`, s)
	}
	return `\` + s[:1], 1, nil // kept as it is, as systemd does in command lines of regular expressions
}

// Expand replaces $NAME and ${NAME} in the words of a command line (systemd.service(5), COMMAND LINES): a word that is $NAME is
// split into words, within a word ${NAME} is replaced as it is. $$ is a dollar sign.
func (c Command) Expand(lookup func(string) string) []string {
	if c.Verbatim {
		return c.Argv
	}
	var out []string
	for i, w := range c.Argv {
		if name, ok := strings.CutPrefix(w, "$"); ok && i > 0 && isName(name) {
			out = append(out, strings.Fields(lookup(name))...)
			continue
		}
		out = append(out, expandWord(w, lookup))
	}
	return out
}

func expandWord(w string, lookup func(string) string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(w, '$')
		if i < 0 {
			return b.String() + w
		}
		b.WriteString(w[:i])
		w = w[i+1:]
		if strings.HasPrefix(w, "$") {
			b.WriteByte('$')
			w = w[1:]
			continue
		}
		if rest, ok := strings.CutPrefix(w, "{"); ok {
			if name, after, closed := strings.Cut(rest, "}"); closed && isName(name) {
				b.WriteString(lookup(name))
				w = after
				continue
			}
		}
		n := 0
		for n < len(w) && isName(w[:n+1]) {
			n++
		}
		if n == 0 {
			b.WriteByte('$')
			continue
		}
		b.WriteString(lookup(w[:n]))
		w = w[n:]
	}
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
