package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Controllers change something only while their host leads the region: each is completed with
// leadership.Reconciler.
func TestControllersActInTerms(t *testing.T) {
	controllers := 0
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Complete" || !builds(f.X) {
				return true
			}
			controllers++
			if r, ok := call.Args[0].(*ast.CallExpr); !ok || typeName(r.Fun) != "leadership.Reconciler" {
				t.Errorf("%s: the controller is not completed with leadership.Reconciler(…)", set.Position(call.Args[0].Pos()))
			}
			return true
		})
	})
	if controllers < 4 {
		t.Errorf("got %d controllers in the sources, want at least 4", controllers)
	}
}

// builds says whether an expression is a chain of calls that begins with a controller's builder.
func builds(e ast.Expr) bool {
	for {
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if f.Sel.Name == "NewControllerManagedBy" {
			return true
		}
		e = f.X
	}
}
