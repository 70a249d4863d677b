package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Scripts match on the reasons of conditions: each is a constant of package region, with a sentence
// that says what it means.
func TestReasonsAreConstants(t *testing.T) {
	conditions := 0
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || typeName(lit.Type) != "metav1.Condition" && typeName(lit.Type) != "Trouble" {
				return true
			}
			conditions++
			for _, e := range lit.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				key, ok := kv.Key.(*ast.Ident)
				if text, literal := kv.Value.(*ast.BasicLit); ok && key.Name == "Reason" && literal {
					t.Errorf("%s: got the reason %s, want a constant of region/reasons.go", set.Position(text.Pos()), text.Value)
				}
			}
			return true
		})
	})
	if conditions < 20 {
		t.Errorf("got %d conditions in the sources, want at least 20", conditions)
	}
}

// typeName is the type of a composite literal as it is written, without its package's path.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	}
	return ""
}
