package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Paths in the data directory come from its table, or reset would not know them.
func TestPathsInTheDataDirectoryComeFromItsTable(t *testing.T) {
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if !strings.HasPrefix(name, "bootstrap/") && !strings.HasPrefix(name, "cmd/regiond/") || strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 || !isSelector(call.Fun, "filepath", "Join") || !namesDataDir(call.Args[0]) {
				return true
			}
			if _, ok := call.Args[1].(*ast.BasicLit); ok {
				t.Errorf("%s: a name is joined to the data directory; use a datadir.Name", set.Position(call.Pos()))
			}
			return true
		})
	})
}

func isSelector(e ast.Expr, of, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == of
}

func namesDataDir(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "dataDir")
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "DataDir")
	}
	return false
}
