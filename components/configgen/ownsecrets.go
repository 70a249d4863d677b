package configgen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/region"
)

// OwnSecrets is the path in the tree of the secrets that an operator adds: own.NAME. Templates
// print them like any other, and a cluster's values refer to them by name:
// keystone.conf.ldap.password: {secret: NAME}.
const OwnSecrets = "own"

// refersTo is the key of such a reference.
const refersTo = "secret"

var ownSecretName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckOwnSecret reports what is wrong with an operator's own secret, without showing it. It
// refuses a value that oslo.config would not read as written: values are one line, and surrounding
// white space and quotes are stripped (oslo_config/iniparser.py).
func CheckOwnSecret(name, value string) error {
	if !ownSecretName.MatchString(name) {
		return fmt.Errorf("%q is not the name of a secret: use at most 63 lower-case letters and digits, with hyphens between them", name)
	}
	if wrong := wrongSecret(value); wrong != "" {
		return fmt.Errorf("secret %s %s", name, wrong)
	}
	return nil
}

func wrongSecret(value string) string {
	switch {
	case value == "":
		return "is empty"
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "has a line break or another control character; options are one line"
	case strings.TrimSpace(value) != value:
		return "begins or ends with white space, which oslo.config would strip"
	case len(value) > 1 && value[0] == value[len(value)-1] && (value[0] == '"' || value[0] == '\''):
		return "is between quotes, which oslo.config would strip"
	case strings.Contains(value, `\$`):
		return "has a backslash before a dollar, which oslo.config would strip"
	}
	return ""
}

// references calls f for each option in a plain tree that refers to a secret. set replaces the
// reference.
func references(tree map[string]any, f func(path []string, name any, set func(value string))) {
	for _, project := range sortedKeys(tree) {
		object, _ := tree[project].(map[string]any)
		conf, _ := object["conf"].(map[string]any)
		for _, section := range sortedKeys(conf) {
			options, _ := conf[section].(map[string]any)
			for _, option := range sortedKeys(options) {
				of, _ := options[option].(map[string]any)
				if name, refers := of[refersTo]; refers && len(of) == 1 {
					f([]string{project, "conf", section, option}, name, func(value string) { options[option] = value })
				}
			}
		}
	}
}

// referred returns the names of the secrets that a cluster's declaration refers to.
func referred(d *region.OpenStackDeclaration) (names []string) {
	for _, raw := range []*runtime.RawExtension{d.Values, d.Overrides} {
		if raw == nil || len(raw.Raw) == 0 {
			continue
		}
		tree, err := decodeObject(raw.Raw)
		if err != nil {
			continue // Source.given reports it
		}
		references(tree, func(_ []string, name any, _ func(string)) {
			if s, isString := name.(string); isString && ownSecretName.MatchString(s) {
				names = append(names, s)
			}
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolve replaces a layer's references with secrets from tree, the cluster's secrets. A node has
// none of its own, so that values in which nodes differ are never secret.
func (s *Source) resolve(l *layer, c *Cluster, tree map[string]any) (errs []error) {
	l.secrets = map[string]bool{}
	references(l.tree, func(path []string, of any, set func(string)) {
		name, isString := of.(string)
		value, _ := secrets.Get(tree, OwnSecrets+"."+name)
		text, _ := value.(string)
		set(text)
		l.secrets[key(path)] = true
		switch {
		case tree == nil:
			errs = append(errs, l.problem(path, "refers to a secret; only values and overrides of the cluster can"))
		case !isString || !ownSecretName.MatchString(name):
			errs = append(errs, l.problem(path, "refers to a secret by %s, which is not a name; write e.g. {secret: ldap-password}", showValue(of)))
		case text == "":
			errs = append(errs, l.problem(path, "refers to the secret %s, which is not set; %s", name, howToSet(c.Declaration, name)))
		case wrongSecret(text) != "" && !marked(text):
			errs = append(errs, l.problem(path, "the secret %s %s", name, wrongSecret(text)))
		}
	})
	return errs
}

func howToSet(d *region.OpenStackDeclaration, name string) string {
	if from := d.Secrets.Source.ExternalSecrets; from != nil {
		return fmt.Sprintf("add %s.%s to the entry %s of the ClusterSecretStore %s", OwnSecrets, name, d.StoreEntry(), from.Store)
	}
	return fmt.Sprintf("set it with: regiond secret set %s %s --from-file FILE", d.Name, name)
}

// marked reports whether a text is a marker for a secret that the External Secrets operator fills
// in.
func marked(text string) bool { return strings.HasPrefix(text, "\x00") }

// writtenSecret returns an option's secret escaped for oslo.config: no dollar in it refers to
// another option.
func writtenSecret(text string) string {
	if marked(text) {
		return strings.TrimSuffix(text, "\x00") + ` | replace "$" "$$"` + "\x00"
	}
	return strings.ReplaceAll(text, "$", "$$")
}
