package configgen

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// formats of files other than those of oslo.config, with the quotes that values may be enclosed in.
// A quoted value must not contain the quotes or a backslash. An unquoted value must be a bare word.
var formats = map[string]string{
	"shell":     "'",
	"sql":       "'",
	"json":      `"`,
	"yaml":      `"`,
	"libvirt":   `"`,
	"mysql":     "",
	"rabbitmq":  "",
	"ini":       "",
	"arguments": "",
	"text":      "", // each line is a value
}

// bareWord matches words without a special meaning in any of the formats.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_.,:/@+=-]*$`)

// checkFormat refuses a file that prints values and does not declare its format.
func (f *file) checkFormat(statements []statement) error {
	if f.Options != "" {
		return nil
	}
	printsValues := false
	printedRefs(statements, func(ref) { printsValues = true })
	if _, known := formats[f.Format]; f.Format != "" && !known || f.Format == "" && printsValues {
		return errors.New("has no known format; formats are " + strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	return nil
}

// guard refuses a printed value that would not be just a value in the file's format. It begins at
// offset before.
func (e *evaluation) guard(o *output, before int) {
	printed := e.buf[before:]
	if !e.src.typed || e.placeholder(o.ref, printed) {
		return
	}
	wrong := ""
	switch {
	case bytes.ContainsFunc(printed, func(c rune) bool { return c < ' ' || c == 0x7f }):
		wrong = "has a line break or another control character"
	case e.format == "" && !e.written(o.ref) && bytes.ContainsRune(printed, '$'):
		wrong = "has a dollar, which oslo.config would substitute" // dollars in values of options are escaped
	case e.format == "" || e.format == "text":
	default:
		line := e.buf[bytes.LastIndexByte(e.buf[:before], '\n')+1 : before]
		quote := formats[e.format]
		switch {
		case quote != "" && bytes.Count(line, []byte(quote))%2 == 1:
			if bytes.ContainsAny(printed, quote+`\`) {
				wrong = fmt.Sprintf("has a quote or a backslash, which would end the enclosing %s string", e.format)
			}
		case !bareWord.Match(printed):
			wrong = fmt.Sprintf("has characters with a special meaning in format %s", e.format)
		}
	}
	if wrong != "" {
		e.refuse(o.ref, o.at, "%s", wrong)
	}
}

// placeholder reports whether the text is a placeholder for a secret that does not exist yet.
func (e *evaluation) placeholder(r ref, printed []byte) bool {
	uses := e.uses(r)
	return len(uses) > 0 && uses[0].leaf.secret && (bytes.HasPrefix(printed, []byte("<secret:")) || bytes.IndexByte(printed, 0) >= 0)
}

// written reports whether a value is that of an option and already escaped for oslo.config.
func (e *evaluation) written(r ref) bool {
	uses := e.uses(r)
	return len(uses) > 0 && uses[0].leaf.written != nil
}
