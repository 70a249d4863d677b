package configgen

import "slices"

// inRole evaluates the conditions that depend only on the role, which is known before any value.
// The remaining statements have their sections outside of blocks, so that options can be placed in
// them.
func inRole(list []statement, role string) []statement {
	out := make([]statement, 0, len(list))
	for _, s := range list {
		b, isBranch := s.(*branch)
		if !isBranch {
			out = append(out, mapped(s, func(body []statement) []statement { return inRole(body, role) }))
			continue
		}
		value, known := b.cond.ofRole(role)
		switch {
		case !known:
			out = append(out, mapped(s, func(body []statement) []statement { return inRole(body, role) }))
		case value:
			out = append(out, inRole(b.then, role)...)
		default:
			out = append(out, inRole(b.els, role)...)
		}
	}
	return out
}

// ofRole returns a condition's value in a role; known is false if it depends on anything else.
func (c condition) ofRole(role string) (value, known bool) {
	all := func(wanted bool) (value, known bool) {
		known = true
		for _, a := range c.args {
			v, k := a.ofRole(role)
			if k && v != wanted {
				return !wanted, true
			}
			known = known && k
		}
		return wanted, known
	}
	switch c.op {
	case "eq", "ne":
		names := c.args
		if names[0].ref == nil {
			names = []condition{names[1], names[0]}
		}
		name, isString := names[1].literal.(string)
		if names[0].ref == nil || !isString || names[0].ref.item || !slices.Equal(names[0].ref.path, []string{"role"}) {
			return false, false
		}
		return (name == role) == (c.op == "eq"), true
	case "not":
		v, k := c.args[0].ofRole(role)
		return !v, k
	case "and":
		return all(true)
	case "or":
		return all(false)
	}
	return false, false
}
