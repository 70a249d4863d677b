package configgen

// Check finds all problems of the values of a cluster and its nodes: those that Apply refuses, and
// values that no template uses. It reports one problem per field.
func (s *Source) Check(c Cluster, nodes []Node) []*Problem {
	r := &checker{source: s, seen: map[string]bool{}}
	v, unused, err := s.Values(c)
	r.add(unused, err)
	if v == nil {
		return r.problems
	}
	for _, role := range s.Roles() {
		if role != RoleCompute {
			r.render(v, role)
		}
	}
	for _, n := range nodes {
		nv, unused, err := s.NodeValues(v, n)
		r.add(unused, err)
		if nv != nil {
			r.render(nv, RoleCompute)
		}
	}
	return r.problems
}

type checker struct {
	source   *Source
	problems []*Problem
	seen     map[string]bool
}

func (r *checker) add(list []*Problem, err error) {
	for _, p := range append(list, Problems(err)...) {
		about := p.Field
		if about == "" {
			about = p.Error()
		}
		if !r.seen[about] {
			r.seen[about] = true
			r.problems = append(r.problems, p)
		}
	}
}

func (r *checker) render(v *Values, role string) {
	_, warnings, err := r.source.Render(v, role)
	r.add(warnings, err)
}

// Texts returns the texts of problems.
func Texts(problems []*Problem) []string {
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.Error()
	}
	return texts
}
