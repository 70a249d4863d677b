package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// phrases are homely where the field has a term.
var phrases = []struct {
	pattern *regexp.Regexp
	better  string
}{
	{regexp.MustCompile(`(?i)\b(made|make|makes|making|created|written) (\w+ )?anew\b`), "recreated, replaced"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix, repair"},
	{regexp.MustCompile(`(?i)\bvouch`), "confirm, verify"},
	{regexp.MustCompile(`(?i)\blast words\b`), "logs"},
	{regexp.MustCompile(`(?i)\bgiv(e|es|en|ing) (the |a |this |it )?(region |cluster |host )up\b`), "tear down"},
	{regexp.MustCompile(`(?i)\bcertificate to end\b`), "certificate to expire"},
	{regexp.MustCompile(`(?i)\bdoubt`), "unknown, uncertain"},
}

// isNo finds 'X is no Y', which English says as 'X is not a Y'; 'there is no Y' and 'is no longer'
// are English.
var isNo = regexp.MustCompile(`(?i)(\w*)\W*\bis no\s+(\w+)`)

func saysIsNo(text string) string {
	for _, m := range isNo.FindAllStringSubmatch(text, -1) {
		if !strings.EqualFold(m[1], "there") && !slices.Contains([]string{"longer", "more", "later", "less"}, m[2]) {
			return m[0]
		}
	}
	return ""
}

// in says whether a file is in one of the rooms.
func in(name string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return name == room || strings.HasPrefix(name, room+"/") })
}

// Comments and messages are plain English.
func TestWords(t *testing.T) {
	check := func(where, text string) {
		t.Helper()
		if found := saysIsNo(text); found != "" {
			t.Errorf("%s: %q; say: is not a …", where, found)
		}
		for _, p := range phrases {
			if found := p.pattern.FindString(text); found != "" {
				t.Errorf("%s: %q; say: %s", where, strings.TrimSpace(found), p.better)
			}
		}
	}
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if name == "test/house/words_test.go" { // has the phrases
			return
		}
		for _, group := range file.Comments {
			check(set.Position(group.Pos()).String(), group.Text())
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				check(set.Position(l.Pos()).String(), literal(l))
			}
			return true
		})
	})
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: pages %v, %v", pattern, pages, err)
		}
		for _, page := range pages {
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			check(page, string(b))
		}
	}
}

// Names are the field's: what is declared is desired.
func TestNames(t *testing.T) {
	homely := regexp.MustCompile(`^[Ww]ish|Wish|^doubt`)
	sources(t, func(_ string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && homely.MatchString(id.Name) {
				t.Errorf("%s: %s; say desired, or what it is", set.Position(id.Pos()), id.Name)
			}
			return true
		})
	})
}

// Attributes of logs have types: slog.String("server", name) and not "server", name, which may lose
// its value or its name.
func TestLogsHaveTypedAttributes(t *testing.T) {
	first := map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "With": 0}
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") || !importsPath(file, "log/slog") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || isSelector(method, "http", "Error") {
				return true
			}
			from, known := first[method.Sel.Name]
			for i := from; known && i < len(call.Args); i++ {
				if l, ok := call.Args[i].(*ast.BasicLit); ok && l.Kind == token.STRING {
					t.Errorf("%s: %s has the loose attribute %s", set.Position(l.Pos()), method.Sel.Name, l.Value)
				}
			}
			return true
		})
	})
}

func importsPath(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return literal(i.Path) == path })
}

// Comments fit a window beside another.
func TestCommentsAreNotWide(t *testing.T) {
	const most = 130
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		for _, group := range file.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					at := set.Position(c.Pos())
					if i > 0 {
						at.Line, at.Column = at.Line+i, 1
					}
					if strings.HasPrefix(line, "//go:") || strings.HasPrefix(line, "// +kubebuilder") || at.Column > 60 { // beside code
						continue
					}
					if n := utf8.RuneCountInString(line) + at.Column - 1; n > most {
						t.Errorf("%s: %d characters, want at most %d", at, n, most)
					}
				}
			}
		}
	})
}
