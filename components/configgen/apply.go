package configgen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Output is a file of a target.
type Output struct {
	// Name below the target's folder.
	Name string
	// Role and Node that it is for. Role is empty for what is for all.
	Role, Node string
	// File is the rendered file, of target apply only.
	File    File
	Content []byte
}

// Emit takes the files of a target, one after the other.
type Emit func(Output) error

// Apply renders what regiond itself applies: ROLE/PATH for pods, nodes/NODE/PATH for nodes. It keeps nothing of what it has emitted.
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
			return nil // others may have errors of their own
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

// Folder is where the files of a target are written: they may hold secrets, so that only their owner reads them.
type Folder struct{ root *os.Root }

// OpenFolder makes the folder if there is none. Files that are in it and are not written stay.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Write puts a file in place at once: whoever reads it sees the old one or the new one.
func (f *Folder) Write(o Output) error {
	if err := f.root.MkdirAll(path.Dir(o.Name), 0o700); err != nil {
		return err
	}
	part := path.Join(path.Dir(o.Name), "."+path.Base(o.Name)+".part")
	// A part that an interrupted run left may be readable by others.
	if err := f.root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.root.WriteFile(part, o.Content, 0o600); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", o.Name, err), f.root.Remove(part))
	}
	return f.root.Rename(part, o.Name)
}

// Close releases the folder.
func (f *Folder) Close() error { return f.root.Close() }
