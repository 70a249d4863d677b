package configgen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"regiond.dev/regiond/machine/configuration"
)

// File is a rendered file.
type File struct {
	Path    string
	Mode    string // octal, "0640"
	Owner   string
	Group   string
	Network bool
	Content string
}

// Render renders the files of a role, sorted by path. For role compute, v are a node's values.
// Warnings are about deprecated options.
func (s *Source) Render(v *Values, role string) (files []File, warnings []*Problem, err error) {
	list := s.filesOf(role)
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("role %q is not known; known: %s", role, strings.Join(s.Roles(), ", "))
	}
	root := v.inRole(role)
	templates, errs := s.templates(list, root, role)
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	files = make([]File, len(list))
	for i, f := range list {
		e := s.evaluation(f, v, root)
		e.run(templates[i])
		if len(e.errs) > 0 {
			errs = append(errs, e.errs...)
			continue
		}
		if f.Options != "" {
			for _, found := range s.checkOptions(f.Options, v.release, e.buf) {
				p := s.setBy(f, templates[i], v, root, found)
				p.Message = fmt.Sprintf("[%s] %s: %s", found.section, found.option, found.text)
				if p.Warning = found.warning; found.warning {
					warnings = append(warnings, p)
				} else {
					errs = append(errs, p)
				}
			}
		}
		files[i] = File{f.Path, f.Mode, f.Owner, f.Group, f.Network, string(e.buf)}
	}
	if len(errs) > 0 {
		return nil, warnings, joinProblems(errs)
	}
	return files, warnings, nil
}

// Node renders the configuration of a compute host: the files of role compute and the services that
// read them.
func (s *Source) Node(v *Values, n Node) (configuration.Configuration, []*Problem, error) {
	var c configuration.Configuration
	nv, unused, err := s.NodeValues(v, n)
	if err != nil {
		return c, unused, err
	}
	files, warnings, err := s.Render(nv, RoleCompute)
	warnings = append(unused, warnings...)
	if err != nil {
		return c, warnings, err
	}
	c.Files = make([]configuration.File, len(files))
	for i, f := range files {
		c.Files[i] = configuration.File{Path: f.Path, Mode: f.Mode, Owner: f.Owner, Group: f.Group, Content: f.Content, Network: f.Network}
	}
	c.Services = make([]configuration.Service, len(s.services))
	for i, service := range s.services {
		c.Services[i] = configuration.Service{Name: service.Name, Files: slices.Clone(service.Files), Reload: service.Reload, Oneshot: service.Oneshot}
	}
	return c, warnings, c.Check()
}

// roleLayer is the layer of the value "role".
var roleLayer = &layer{name: "role", kind: firmLayer, where: func(string) string { return filesName }}

// inRole returns the tree that templates see.
func (v *Values) inRole(role string) *node {
	root := &node{children: maps.Clone(v.root.children)}
	root.children["role"] = &node{value: role, from: roleLayer}
	return root
}

func (s *Source) evaluation(f *file, v *Values, root *node) *evaluation {
	const usual = 4 << 10 // typical size of a file in bytes
	return &evaluation{template: f.place, values: v, root: root, src: s, format: f.Format, buf: make([]byte, 0, usual)}
}

// maxSets bounds the number of cached sets of templates, each about 100 kB. There is one per set of
// options.
const maxSets = 64

// templates returns the templates of a role's files with the options that the values set.
func (s *Source) templates(list []*file, root *node, role string) ([][]statement, []error) {
	options, errs := s.setByValues(list, root)
	if len(errs) > 0 {
		return nil, errs
	}
	key := role + "\x04" + shape(options)
	s.mu.Lock()
	defer s.mu.Unlock()
	if set, ok := s.set[key]; ok {
		return set, nil
	}
	if len(s.set) >= maxSets {
		clear(s.set)
	}
	set := withOptions(list, role, options)
	s.set[key] = set
	return set, nil
}

// setByValues returns the options that values set for the projects of these files.
func (s *Source) setByValues(list []*file, root *node) (options []setOption, errs []error) {
	seen := map[string]bool{"": true}
	for _, f := range list {
		if seen[f.Options] {
			continue
		}
		seen[f.Options] = true
		own, wrong := optionsOf(root, f.Options)
		options = append(options, own...)
		for _, w := range wrong {
			errs = append(errs, w.leaf.from.problem(w.path, "options are given as %s.conf.SECTION.OPTION, a value or a list", f.Options))
		}
	}
	return options, errs
}

// withOptions sets each option in the files that have it, else in those that have its section, else
// in the first file in files.yaml.
func withOptions(list []*file, role string, options []setOption) [][]statement {
	per := make([][]setOption, len(list))
	for _, o := range options {
		var with, near []int
		first := -1
		for i, f := range list {
			if f.Options != o.path[0] {
				continue
			}
			if first < 0 || f.order < list[first].order {
				first = i
			}
			hasOption, hasSection := has(f.rows[role], o.section, o.name)
			if hasOption {
				with = append(with, i)
			}
			if hasSection {
				near = append(near, i)
			}
		}
		switch {
		case len(with) > 0:
		case len(near) > 0:
			with = near
		default:
			with = []int{first}
		}
		for _, i := range with {
			per[i] = append(per[i], o)
		}
	}
	set := make([][]statement, len(list))
	for i, f := range list {
		set[i] = f.statements[role]
		if len(per[i]) > 0 {
			set[i] = flatten(setOptions(f.rows[role], per[i]))
		}
	}
	return set
}
