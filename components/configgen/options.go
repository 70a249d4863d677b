package configgen

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"regiond.dev/regiond/region/check"
)

//go:embed options
var optionFiles embed.FS

// optionTemplates is the option data in the form for decodeFile.
var optionTemplates = Templates{Name: "configgen", FS: optionFiles}

// optionData has a release's options by project and section, as extracted from its packages.
type optionData map[string]map[string]sectionData

type sectionData struct {
	// Options by their current names, with _ for -, sorted.
	Options []string `json:"options"`
	// Deprecated names with the current name: NAME, or SECTION.NAME if it has moved.
	Deprecated map[string]string `json:"deprecated"`
	// Types of options that do not accept arbitrary text.
	Types map[string]*optionType `json:"types"`
}

// has reports whether the section has an option.
func (s sectionData) has(option string) bool {
	_, ok := slices.BinarySearch(s.Options, option)
	return ok
}

// dynamicRule is an entry of options/dynamic.yaml.
type dynamicRule struct {
	Project   string   `yaml:"project"`
	Sections  []string `yaml:"sections"`
	NamedBy   string   `yaml:"named_by"`
	OptionsOf string   `yaml:"options_of"`
	// Options by name; null for those that accept any text.
	Options map[string]*optionType `yaml:"options"`
}

// option returns the type of an option by a rule.
func (r *dynamicRule) option(name string, sections map[string]sectionData) (t *optionType, known bool) {
	if t, known = r.Options[name]; known {
		return t, true
	}
	of := sections[r.OptionsOf]
	return of.Types[name], of.has(name)
}

// optionType returns the type of an option, under its current or a deprecated name.
func (s *Source) optionType(release, project, section, option string) (t *optionType, known bool) {
	sections := s.options[release][project]
	option = optionName(option)
	if section, option = current(sections, section, option); sections[section].has(option) {
		return sections[section].Types[option], true
	}
	for _, r := range s.rules {
		if r.Project != project {
			continue
		}
		if t, known = r.option(option, sections); known {
			return t, true
		}
	}
	return nil, false
}

// current returns the current section and name of an option with a deprecated name.
func current(sections map[string]sectionData, section, option string) (string, string) {
	data := sections[section]
	now, old := data.Deprecated[option]
	if !old || data.has(option) {
		return section, option
	}
	if other, name, moved := strings.Cut(now, "."); moved {
		return other, name
	}
	return section, now
}

// loadOptions reads the data of all releases.
func loadOptions() (map[string]optionData, error) {
	names, err := optionFiles.ReadDir("options")
	if err != nil {
		return nil, err
	}
	all := map[string]optionData{}
	for _, n := range names {
		release, isData := strings.CutSuffix(n.Name(), ".json")
		if !isData {
			continue
		}
		content, err := optionFiles.ReadFile("options/" + n.Name())
		if err != nil {
			return nil, err
		}
		if all[release], err = parseOptions(content); err != nil {
			return nil, fmt.Errorf("options/%s: %w", n.Name(), err)
		}
	}
	return all, nil
}

func parseOptions(content []byte) (optionData, error) {
	var d optionData
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, err
	}
	for _, sections := range d {
		for _, s := range sections {
			slices.Sort(s.Options)
		}
	}
	return d, nil
}

func loadDynamic() ([]dynamicRule, error) {
	var rules []dynamicRule
	return rules, decodeFile(optionTemplates, "options/dynamic.yaml", &rules)
}

// finding is an option that the release does not have or has under another name, or whose value is
// invalid.
type finding struct {
	section, option string
	// offset and end of the line in the file.
	offset, end int
	// text says what is wrong; warning is true if it works nevertheless.
	text    string
	warning bool
}

// checkOptions finds options in a rendered file that the project does not have in this release, and
// values that it would not accept.
func (s *Source) checkOptions(project, release string, content []byte) (found []finding) {
	sections := s.options[release][project]
	if sections == nil {
		return nil // no data: no image of the release has been built
	}
	for line := range options(content) {
		data, known := sections[line.section]
		option := optionName(line.option)
		f := finding{section: line.section, option: line.option, offset: line.offset, end: line.end}
		section, name := current(sections, line.section, option)
		kind, takes := data.Types[option], known && data.has(option)
		if !takes {
			kind, takes = s.dynamic(project, line.section, option, sections, content)
		}
		switch value, refers := readOption(line.value); {
		// A fact may be a placeholder, e.g. a node's address before its agent has reported one.
		case takes && (refers || !s.typed || kind.fits(value) || s.owned(release, project, section, name) != ""):
			continue
		case takes:
			f.text = fmt.Sprintf("%s is not %s, as %s of %s requires", showValue(value), kind.takes(), project, release)
		case name != option || section != line.section:
			f.warning = true
			f.text = fmt.Sprintf("is deprecated; its name in %s is [%s] %s", release, section, name)
		default:
			f.text = fmt.Sprintf("%s of %s has no such %s%s", project, release, map[bool]string{true: "option", false: "section"}[known],
				s.suggestOption(project, release, line.section, option))
		}
		found = append(found, f)
	}
	return found
}

// dynamic returns the type of an option by the rules.
func (s *Source) dynamic(project, section, option string, sections map[string]sectionData, content []byte) (t *optionType, known bool) {
	for _, r := range s.rules {
		if r.Project != project {
			continue
		}
		names := r.Sections
		if r.NamedBy != "" {
			for line := range options(content) {
				if line.section == "DEFAULT" && line.option == r.NamedBy {
					for pair := range strings.SplitSeq(line.value, ",") {
						name, _, _ := strings.Cut(strings.TrimSpace(pair), ":")
						names = append(names, name)
					}
				}
			}
		}
		for _, pattern := range names {
			// An invalid pattern matches nothing.
			if ok, _ := path.Match(pattern, section); !ok {
				continue
			}
			if t, known = r.option(option, sections); known {
				return t, true
			}
		}
	}
	return nil, false
}

// suggestOption suggests the intended release, section or name.
func (s *Source) suggestOption(project, release, section, option string) string {
	for _, other := range sortedKeys(s.options) {
		if other != release && s.options[other][project][section].has(option) {
			return "; it exists in " + other
		}
	}
	sections := s.options[release][project]
	data, known := sections[section]
	if !known {
		if c := check.Closest(section, sortedKeys(sections)); c != "" {
			return fmt.Sprintf("; did you mean [%s]?", c)
		}
	}
	var elsewhere []string
	for _, name := range sortedKeys(sections) {
		if sections[name].has(option) {
			elsewhere = append(elsewhere, "["+name+"]")
		}
	}
	if c := check.Closest(option, data.Options); c != "" {
		return fmt.Sprintf("; did you mean %s?", c)
	}
	const few = 4
	if len(elsewhere) > 0 && len(elsewhere) <= few {
		return "; it is in " + strings.Join(elsewhere, ", ")
	}
	return ""
}
