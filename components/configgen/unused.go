package configgen

import (
	"fmt"
	"strings"

	"regiond.dev/regiond/region/check"
)

// unused warns about the operator's values that no template uses.
func (s *Source) unused(layers []*layer) (warnings []*Problem) {
	for _, l := range layers {
		if !l.operator {
			continue
		}
		walk(l.tree, nil, func(path []string, _ any) {
			if !s.uses(path) {
				warnings = append(warnings, l.problem(path, "no template uses %s%s", joined(path), s.meant(path)))
			}
		})
	}
	return warnings
}

// walk calls f for each leaf of a plain tree, in order.
func walk(tree map[string]any, path []string, f func(path []string, value any)) {
	for _, key := range sortedKeys(tree) {
		below := append(path[:len(path):len(path)], key)
		if object, ok := tree[key].(map[string]any); ok {
			walk(object, below, f)
		} else {
			f(below, tree[key])
		}
	}
}

// uses reports whether a template uses the leaf, or it is an option of a project that has a file.
func (s *Source) uses(path []string) bool {
	if isOption(path) {
		return s.projects[path[0]]
	}
	return s.used[strings.Join(path, ".")]
}

// meant suggests the nearest used value, first among the siblings of the first unknown key.
func (s *Source) meant(path []string) string {
	names := map[string]map[string]bool{}
	add := func(p []string) {
		for i, key := range p {
			parent := strings.Join(p[:i], ".")
			if names[parent] == nil {
				names[parent] = map[string]bool{}
			}
			names[parent][key] = true
		}
	}
	for used := range s.used {
		add(strings.Split(used, "."))
	}
	for project := range s.projects {
		add([]string{project, "conf"})
	}
	for i, key := range path {
		near := names[strings.Join(path[:i], ".")]
		if near[key] {
			continue
		}
		if c := check.Closest(key, sortedKeys(near)); c != "" {
			return fmt.Sprintf("; did you mean %s?", strings.Join(append(path[:i:i], c), "."))
		}
		break
	}
	if len(path) > 1 && path[1] == "conf" && s.projects[path[0]] {
		return fmt.Sprintf("; options are given as %s.conf.SECTION.OPTION", path[0])
	}
	return ""
}
