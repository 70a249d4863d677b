package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// sources are the module's Go files with their paths from its root.
func sources(t *testing.T, f func(name string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		n++
		f(name, set, file)
		return nil
	})
	if err != nil || n < 100 {
		t.Fatalf("%d files: %v", n, err)
	}
}

// A test that sleeps is slow on a fast machine and wrong on a slow one; one that skips tests
// nothing. Neither has a way to fail when it should.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch call := x.Name + "." + s.Sel.Name; call {
			case "time.Sleep", "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "f.Skip":
				t.Errorf("%s:%d: %s", name, set.Position(n.Pos()).Line, call)
			}
			return true
		})
	})
}

// Only commands read the environment; everything else is given a Config.
func TestOnlyCommandsReadTheEnvironment(t *testing.T) {
	calls := []string{"Getenv", "LookupEnv", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv"}
	inCommands := 0
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") || in(name, []string{"test", "tools"}) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok || !slices.ContainsFunc(calls, func(call string) bool { return isSelector(e, "os", call) }) {
				return true
			}
			if in(name, []string{"cmd"}) {
				inCommands++
				return true
			}
			t.Errorf("%s:%d: only commands read the environment; take a Config", name, set.Position(n.Pos()).Line)
			return true
		})
	})
	if inCommands == 0 {
		t.Error("got no command that reads the environment; want some, or this test sees nothing")
	}
}

func TestNothingIsLeftForLater(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		for _, group := range file.Comments {
			for _, c := range group.List {
				for _, w := range words {
					if strings.Contains(c.Text, w) {
						t.Errorf("%s:%d: %s", name, set.Position(c.Pos()).Line, w)
					}
				}
			}
		}
	})
}

// What is shipped has no mark of the machine on which it was built.
func TestNoPathsOfTheBuildMachine(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		t.Fatalf("home %q: %v", home, err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && (strings.Contains(l.Value, home+"/") || strings.Contains(l.Value, here)) {
				t.Errorf("%s:%d: %s", name, set.Position(l.Pos()).Line, l.Value)
			}
			return true
		})
	})
}
