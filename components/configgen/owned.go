package configgen

import (
	"fmt"
	"slices"
	"strings"
)

// ownedRule is an entry of options/owned.yaml.
type ownedRule struct {
	Project string              `yaml:"project"`
	Because string              `yaml:"because"`
	Options map[string][]string `yaml:"options"`
}

// credentialOptions identify the user of a password (keystoneauth1's loading.get_plugin_options).
var credentialOptions = []string{"auth_type", "auth_section", "username", "user_id", "user_domain_name", "user_domain_id", "project_name",
	"project_id", "project_domain_name", "project_domain_id", "tenant_name", "tenant_id", "default_domain_name", "default_domain_id",
	"domain_name", "domain_id", "system_scope", "trust_id", "application_credential_id", "application_credential_name",
	"application_credential_secret"}

// optionUse describes what templates print in an option's line.
type optionUse struct {
	// owned explains why values can't replace the option. Empty if they can.
	owned string
	// values of the tree that are printed in the line.
	values [][]string
}

// becauseNode is why an option that identifies a node can't be replaced.
const becauseNode = "it identifies this node"

// optionKey returns PROJECT.SECTION.OPTION with a separator that names can't contain.
func optionKey(project, section, option string) string {
	return key([]string{project, section, option})
}

// noteOptions records which values a file's option lines print.
func (s *Source) noteOptions(f *file) {
	for _, role := range f.Roles {
		s.noteRows(f.Options, f.rows[role], noSection)
	}
}

func (s *Source) noteRows(project string, rows []row, section string) string {
	for _, w := range rows {
		switch w.kind {
		case headerRow:
			section = w.name
		case blockRow:
			a, b := s.noteRows(project, w.then, section), s.noteRows(project, w.els, section)
			if a != section || b != section {
				section = unknown
			}
		case optionRow:
			printedRefs(w.statements, func(r ref) { s.noteUse(project, section, w.name, r.path) })
		}
	}
	return section
}

// printedRefs calls f for the values that statements print, from the root of the tree, but not for
// those used in conditions.
func printedRefs(statements []statement, f func(ref)) {
	for _, s := range statements {
		switch s := s.(type) {
		case *output:
			if !s.ref.item {
				f(s.ref)
			}
		case *loop:
			if !s.ref.item {
				f(s.ref)
			}
			printedRefs(s.body, f)
		case *branch:
			printedRefs(s.then, f)
			printedRefs(s.els, f)
		}
	}
}

func (s *Source) noteUse(project, section, option string, path []string) {
	use := s.use(project, section, option)
	_, secret := s.secrets[joined(path)]
	secret = secret || path[0] == "node" && slices.Contains(nodeSecrets, joined(path[1:]))
	switch {
	case secret:
		use.owned = "it contains a secret that regiond manages"
		if option == "password" {
			for _, name := range credentialOptions {
				if of := s.use(project, section, name); of.owned == "" || of.owned == becauseNode {
					of.owned = "it belongs to a password that regiond manages"
				}
			}
		}
	case path[0] == "node" && use.owned == "":
		use.owned = becauseNode
	case path[0] == "cluster" && use.owned == "":
		use.owned = "it locates the cluster's broker, database or APIs"
	case path[0] == "physical_networks":
		use.owned = "it follows from the cluster's physicalNetworks"
	}
	if !slices.ContainsFunc(use.values, func(p []string) bool { return slices.Equal(p, path) }) {
		use.values = append(use.values, path)
	}
}

func (s *Source) use(project, section, option string) *optionUse {
	k := optionKey(project, section, option)
	if s.optionUses[k] == nil {
		s.optionUses[k] = &optionUse{}
	}
	return s.optionUses[k]
}

func (s *Source) loadOwned() error {
	var rules []ownedRule
	if err := decodeFile(optionTemplates, "options/owned.yaml", &rules); err != nil {
		return err
	}
	for _, r := range rules {
		for section, options := range r.Options {
			for _, option := range options {
				s.use(r.Project, section, option).owned = r.Because
			}
		}
	}
	return nil
}

// owned explains why an option, under its current or a deprecated name, can't be replaced by
// values. Empty if it can.
func (s *Source) owned(release, project, section, option string) string {
	section, option = current(s.options[release][project], section, optionName(option))
	if use := s.optionUses[optionKey(project, section, option)]; use != nil && use.owned != "" {
		return fmt.Sprintf("regiond sets this option itself: %s; remove it", use.owned)
	}
	return ""
}

// conflicts finds options that are set both below conf and by another value for the same line: the
// former would silently win.
func (s *Source) conflicts(v *Values) (errs []error) {
	if !s.typed {
		return nil
	}
	for _, project := range sortedKeys(s.projects) {
		conf := v.root.find([]string{project, "conf"})
		if conf == nil || conf.leaf() {
			continue
		}
		conf.leaves([]string{project, "conf"}, func(path []string, leaf *node) {
			if !isOption(path) || !leaf.from.operator || leaf.from.kind == overrideLayer {
				return
			}
			section, option := current(s.options[v.release][project], path[2], optionName(path[3]))
			use := s.optionUses[optionKey(project, section, option)]
			if use == nil || use.owned != "" {
				return
			}
			for _, other := range use.values {
				n := v.root.find(other)
				if n != nil && n.leaf() && n.from.operator && !equal(n.value, leaf.value) {
					errs = append(errs, leaf.from.problem(path, "[%s] %s is set here to %s, and by %s to %s; keep one of them",
						section, option, show(leaf), n.from.place(other), show(n)))
				}
			}
		})
	}
	return errs
}

// factNames are values that regiond determines itself, and where they are declared.
var factNames = map[string]string{"cluster": "the cluster's own fields", "region": "metadata.name", "node": "the host",
	"role": "files.yaml", "physical_networks": "the cluster's physicalNetworks"}

// withoutFacts removes facts from an operator's tree and reports them.
func withoutFacts(l *layer) (errs []error) {
	for _, name := range sortedKeys(l.tree) {
		from, isFact := factNames[name]
		if !isFact {
			continue
		}
		path := []string{name}
		if object, isObject := l.tree[name].(map[string]any); isObject {
			walk(object, path, func(p []string, _ any) { path = p })
		}
		errs = append(errs, l.problem(path, "%s is a fact, which comes from %s; remove it here", strings.Join(path, "."), from))
		delete(l.tree, name)
	}
	return errs
}
