package configgen

// Output is an output file of a target.
type Output struct {
	// Name below the target's folder.
	Name string
	// Role and Node that it is for. Role is empty for files that all roles share.
	Role, Node string
	// File is the rendered file, for target apply only.
	File    File
	Content []byte
}

// Emit receives the files of a target one by one.
type Emit func(Output) error

// Apply renders the files that regiond itself applies: ROLE/PATH for pods, nodes/NODE/PATH for
// nodes. It retains nothing that it has emitted.
func (s *Source) Apply(c Cluster, nodes []Node, emit Emit) (warnings []*Problem, err error) {
	v, warnings, err := s.Values(c)
	if err != nil {
		return warnings, err
	}
	var errs []error
	all := func(v *Values, role, dir string) error {
		files, more, err := s.Render(v, role)
		warnings = append(warnings, more...)
		if err != nil {
			errs = append(errs, err)
			return nil // the others may have errors, too
		}
		for _, f := range files {
			if err := emit(Output{Name: dir + f.Path, Role: role, Node: v.node, File: f, Content: []byte(f.Content)}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, role := range s.Roles() {
		if role == RoleCompute {
			continue
		}
		if err := all(v, role, role); err != nil {
			return warnings, err
		}
	}
	for _, n := range nodes {
		nv, more, err := s.NodeValues(v, n)
		warnings = append(warnings, more...)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := all(nv, RoleCompute, "nodes/"+n.Name); err != nil {
			return warnings, err
		}
	}
	return uniqueProblems(warnings), joinProblems(errs)
}
