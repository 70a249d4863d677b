package configgen

import (
	"strings"
	"testing"
)

// osloTemplate reads a value as oslo.config does: string.Template.safe_substitute with its pattern
// of names, after replacing \\$ with $$. It is implemented differently from unescapeDollars.
func osloTemplate(text string, options map[string]string) string {
	text = strings.ReplaceAll(text, `\$`, "$$")
	var b strings.Builder
	for text != "" {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			break
		}
		if after, escaped := strings.CutPrefix(rest, "$"); escaped {
			b.WriteByte('$')
			text = after
			continue
		}
		if name, length := referenceAt("$"+rest, 0); length > 0 {
			value, ok := options[name]
			if !ok {
				return "no such option " + name
			}
			b.WriteString(value)
			text = rest[length-1:]
			continue
		}
		b.WriteByte('$')
		text = rest
	}
	return b.String()
}

var dollarOptions = map[string]string{"my_ip": "10.0.0.1", "debug": "false", "database.connection": "db"}

func TestDollars(t *testing.T) {
	isOption := func(name string) bool { return dollarOptions[name] != "" }
	for text, arrives := range map[string]string{
		"Pa$w0rd":                   "Pa$w0rd",
		"az$debug":                  "az$debug", // a dollar within a word is literal
		"$w0rd":                     "$w0rd",
		"$":                         "$",
		"$$":                        "$$",
		"100$":                      "100$",
		`a\$b`:                      `a\$b`,
		`a\\$$b$`:                   `a\\$$b$`,
		"$my_ip":                    "10.0.0.1",
		"http://${my_ip}:80/$debug": "http://10.0.0.1:80/false",
		"$database.connection":      "db",
		"$$my_ip":                   "$my_ip",
		"$$w0rd":                    "$$w0rd",
		"${w0rd}":                   "${w0rd}",
		"ä$debug":                   "ä$debug",
	} {
		escaped := escapeDollars(text, isOption)
		if got := osloTemplate(escaped, dollarOptions); got != arrives {
			t.Errorf("%s is written as %s and reaches the service as %s, want %s", text, escaped, got, arrives)
		}
	}
}

// A text without references to options reaches the service as written.
func FuzzDollars(f *testing.F) {
	for _, s := range []string{"Pa$w0rd", `\$`, "$$$", "${", "$_.a", `\\$\$$x`} {
		f.Add(s)
	}
	none := func(string) bool { return false }
	f.Fuzz(func(t *testing.T, text string) {
		escaped := escapeDollars(text, none)
		if got := osloTemplate(escaped, nil); got != text {
			t.Errorf("%q is written as %q and reaches the service as %q", text, escaped, got)
		}
		if got, refers := unescapeDollars(escaped); got != text || refers {
			t.Errorf("%q is written as %q and read as %q, refers %t", text, escaped, got, refers)
		}
	})
}
