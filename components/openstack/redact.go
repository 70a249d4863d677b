package openstack

import (
	"regexp"
	"slices"
	"strings"
)

// minSecret is the minimum length in bytes of secrets that are redacted. Shorter strings are not
// secrets, and redacting them would make every file unreadable.
const minSecret = 6

// Redact replaces the secrets of the cluster in a text, and everything that looks like a secret:
// the text may contain earlier secrets.
func (s *State) Redact(text string) string {
	type secret struct{ path, value string }
	var all []secret
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(strings.TrimPrefix(path+"."+k, "."), e)
			}
		case []any:
			for _, e := range v {
				walk(path, e)
			}
		case string:
			if len(v) >= minSecret {
				all = append(all, secret{path, v})
				if escaped := strings.ReplaceAll(v, "$", "$$"); escaped != v { // as escaped in options of oslo.config
					all = append(all, secret{path, escaped})
				}
			}
		}
	}
	walk("", s.secrets)
	// The longest first, because one secret may be part of another.
	slices.SortFunc(all, func(a, b secret) int {
		if d := len(b.value) - len(a.value); d != 0 {
			return d
		}
		return strings.Compare(a.path, b.path)
	})
	for _, x := range all {
		text = strings.ReplaceAll(text, x.value, "<secret:"+x.path+">")
	}
	return RedactUnknown(text)
}

var (
	// secretOption matches an option whose name says that its value is a secret, in ini, YAML, JSON or
	// Erlang terms; not "<secret:…>".
	secretOption = regexp.MustCompile(`(?im)((?:^|[^<\w.-])[\w.-]*` +
		`(?:password|passwd|secret|token|cookie|private_key|shared_key)\w*["']?[ \t]*[=:][ \t]*)` +
		`("[^"<\n][^"\n]*"|'[^'<\n][^'\n]*'|[^\s<"'\[{][^\n]*)`)
	// secretSQL matches the password of a user in SQL.
	secretSQL = regexp.MustCompile(`(?i)(\bidentified by ')([^'<][^']*)(')`)
	// secretURL matches the password of a URL's user (RFC 3986, section 3.2.1).
	secretURL = regexp.MustCompile(`(://[^\s:/@]*:)([^\s@/<]+)(@)`)
	// secretKey matches a line that consists of a 32-byte key in Base64, such as a Fernet key.
	secretKey = regexp.MustCompile(`(?m)^[A-Za-z0-9+/_-]{43}=$`)
)

// RedactUnknown hides everything that looks like a secret by the name of its option or its
// position.
func RedactUnknown(text string) string {
	text = secretOption.ReplaceAllString(text, "${1}<secret>")
	text = secretSQL.ReplaceAllString(text, "${1}<secret>${3}")
	text = secretURL.ReplaceAllString(text, "${1}<secret>${3}")
	return secretKey.ReplaceAllString(text, "<secret>")
}
