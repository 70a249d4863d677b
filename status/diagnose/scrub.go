package diagnose

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"regiond.dev/regiond/components/openstack"
)

// shortest secret that is looked for: shorter ones would be found in every other word.
const shortest = 6

// removed stands where a secret was.
const removed = "[removed]"

// shortestSetting is that of a value that is taken for a secret by the name of its setting.
const shortestSetting = 12

// namedSecret are keys of Secrets whose values are secrets, as in those of BMCs and of service accounts.
var namedSecret = regexp.MustCompile(`(?i)(password|token|key)$`)

// settings are secrets in configuration files. Those of a host are derived, and are nowhere else.
var settings = []*regexp.Regexp{
	regexp.MustCompile(`://[^\s:/@"]+:([^\s@"]+)@`),
	regexp.MustCompile(`(?i)(?:password|secret|secret_key)\s*[=:]\s*"?([^\s"\\]+)`),
}

// secretValues are the secrets in the region's Secrets: all of a cluster's tree, values that are named so,
// the lines of private keys, and settings in configuration files. Names and addresses are not among them:
// they would be removed from every line.
func secretValues(all []corev1.Secret) []string {
	var out []string
	add := func(least int, values ...string) {
		for _, v := range values {
			if v = strings.TrimSpace(v); len(v) >= least {
				out = append(out, v)
			}
		}
	}
	for _, s := range all {
		for key, value := range s.Data {
			var tree map[string]any
			switch {
			case s.Name == openstack.SecretName && json.Unmarshal(value, &tree) == nil:
				add(shortest, leaves(tree)...)
			case bytes.Contains(value, []byte("PRIVATE KEY")):
				add(shortest, bodyOf(string(value))...)
			case namedSecret.MatchString(key):
				add(shortest, string(value))
			default:
				for _, form := range settings {
					for _, match := range form.FindAllStringSubmatch(string(value), -1) {
						add(shortestSetting, match[1])
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leaves are the strings of a tree.
func leaves(tree any) (out []string) {
	switch t := tree.(type) {
	case string:
		return []string{t}
	case []any:
		for _, v := range t {
			out = append(out, leaves(v)...)
		}
	case map[string]any:
		for _, v := range t {
			out = append(out, leaves(v)...)
		}
	}
	return out
}

// bodyOf are the lines of PEM between the headers.
func bodyOf(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && len(line) >= 32 {
			out = append(out, line)
		}
	}
	return out
}

// looksSecret are forms of secrets that are in no Secret, or not any more: passwords in URLs, Keystone's
// and Kubernetes' tokens, and settings that are named so.
var looksSecret = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(://[^\s:/@]+:)[^\s@]+@`), "${1}" + removed + "@"},
	{regexp.MustCompile(`\bgAAAA[\w=-]{20,}`), removed},                      // Fernet
	{regexp.MustCompile(`\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}`), removed}, // JSON Web Token
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`), removed},
	{regexp.MustCompile(`(?i)(\b[\w-]*(?:password|passwd|secret_?key|authorization|auth-token)["']?\s*[:=]\s*["']?)(?:(?:basic|bearer)\s+)?[^\s"',;}]+`), "${1}" + removed},
}

// scrubber removes secrets from text.
type scrubber struct{ known *strings.Replacer }

// escaped as in JSON.
func escaped(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(quoted[1 : len(quoted)-1])
}

// newScrubber knows the secrets, as they are, in base64, in JSON, and in URLs.
func newScrubber(secrets []string) scrubber {
	var forms []string
	for _, s := range secrets {
		forms = append(forms, s, url.QueryEscape(s), url.PathEscape(s), escaped(s))
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			forms = append(forms, strings.TrimRight(e.EncodeToString([]byte(s)), "="))
		}
	}
	// The longest first: one may be the beginning of another.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, removed)
	}
	return scrubber{known: strings.NewReplacer(pairs...)}
}

func (s scrubber) text(t string) string {
	t = s.known.Replace(t)
	for _, l := range looksSecret {
		t = l.form.ReplaceAllString(t, l.with)
	}
	return t
}
