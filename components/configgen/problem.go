package configgen

import (
	"errors"
	"fmt"
)

// Problem is a problem of a cluster's values, with its place.
type Problem struct {
	// Field is the path in the region file, e.g. spec.openstack.clusters[0].values.nova.debug. It is
	// empty if the problem does not come from the file.
	Field string
	// Place is where to look: the field with file and line, a template's line, or a Secret.
	Place   string
	Message string
	// Warning: it works nevertheless.
	Warning bool
}

func (p *Problem) Error() string {
	if p.Place == "" {
		return p.Message
	}
	return p.Place + ": " + p.Message
}

// problem returns a problem of a value of the layer.
func (l *layer) problem(path []string, format string, args ...any) *Problem {
	p := &Problem{Place: l.place(path), Message: fmt.Sprintf(format, args...)}
	if l.field != nil {
		p.Field = l.field(joined(path))
	}
	return p
}

// Problems returns the parts of a joined error without duplicates: nodes mostly have the same ones.
// An error that is not a Problem has neither field nor place.
func Problems(err error) (list []*Problem) {
	seen := map[Problem]bool{}
	var collect func(error)
	collect = func(err error) {
		var p *Problem
		switch e := err.(type) { //nolint:errorlint // unwrapping would lose the text around a Problem
		case nil:
			return
		case *Problem:
			p = e
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				collect(one)
			}
			return
		default:
			p = &Problem{Message: err.Error()}
		}
		if !seen[*p] {
			seen[*p] = true
			list = append(list, p)
		}
	}
	collect(err)
	return list
}

// uniqueProblems removes duplicates.
func uniqueProblems(list []*Problem) []*Problem {
	errs := make([]error, len(list))
	for i, p := range list {
		errs[i] = p
	}
	return Problems(errors.Join(errs...))
}

// joinProblems is errors.Join without duplicate problems.
func joinProblems(errs []error) error {
	list := Problems(errors.Join(errs...))
	once := make([]error, len(list))
	for i, p := range list {
		once[i] = p
	}
	return errors.Join(once...)
}
