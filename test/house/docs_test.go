package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	target  = regexp.MustCompile("(?m)^([a-z0-9-]+):.*## ")
	command = regexp.MustCompile("(^    |`)make ([a-z0-9-]+)")
)

// What the documents point at is there: files by their links, and the Makefile's targets.
func TestDocumentsPointAtWhatIsThere(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	documents := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	links := 0
	for _, document := range documents {
		b, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", document, m[1], err)
			}
		}
		for line := range strings.Lines(string(b)) {
			for _, m := range command.FindAllStringSubmatch(line, -1) {
				if !targets[m[2]] {
					t.Errorf("%s: make %s: the Makefile has no such target", document, m[2])
				}
			}
		}
	}
	if links < 3 || len(targets) < 8 {
		t.Errorf("%d links and %d targets were found only", links, len(targets))
	}
}

// Every suite has a row in docs/verification.md.
func TestSuitesAreInTheTableOfVerification(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(root, "docs/verification.md"))
	if err != nil {
		t.Fatal(err)
	}
	suites := 0
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		if m[1] != "test" && m[1] != "lint" && m[1] != "integration" && !strings.HasPrefix(m[1], "e2e") {
			continue
		}
		suites++
		if !strings.Contains(string(table), "| `make "+m[1]+"` |") {
			t.Errorf("docs/verification.md has no row for make %s: want what it proves, and when it passed last", m[1])
		}
	}
	if suites < 5 {
		t.Errorf("got %d suites in the Makefile, want at least 5", suites)
	}
}

var testName = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)`)

// namedTest is how a document names a test: with its folder.
var namedTest = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")

// A promise names the test that holds it, and a fault the test that keeps it away, by folder and
// name; these tests exist there.
func TestPromisesNameTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasSuffix(name, "_test.go") {
				tests[filepath.Dir(name)+" "+f.Name.Name] = true
			}
		}
	})
	found := 0
	for _, document := range []string{"docs/faults.md", "docs/safety.md"} {
		b, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
			last := cells[len(cells)-1]
			for _, m := range namedTest.FindAllStringSubmatch(last, -1) {
				if found++; !tests[m[1]+" "+m[2]] {
					t.Errorf("%s:%d: there is no test %s in %s", document, i+1, m[2], m[1])
				}
			}
			for _, m := range testName.FindAllString(namedTest.ReplaceAllString(last, ""), -1) {
				t.Errorf("%s:%d: got %s, want its folder beside it: `FOLDER %s`", document, i+1, m, m)
			}
		}
	}
	if found < 200 {
		t.Errorf("got %d tests that are named, want at least 200", found)
	}
}

var metric = regexp.MustCompile(`regiond_[a-z_]+`)

// Operators alert by metrics that exist.
func TestMetricsInDocumentsExist(t *testing.T) {
	known := map[string]bool{}
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if strings.HasSuffix(name, "_test.go") {
				return false
			}
			switch n := n.(type) {
			case *ast.KeyValueExpr: // the Name of its options
				known[literal(n.Value)] = true
			case *ast.CallExpr: // prometheus.NewDesc
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && isSelector(f, "prometheus", "NewDesc") {
					known[literal(n.Args[0])] = true
				}
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "opts" && len(n.Args) > 0 { // a package's own, with its name
					known["regiond_"+filepath.Base(filepath.Dir(name))+"_"+literal(n.Args[0])] = true
				}
			}
			return true
		})
	})
	for name, least := range map[string]int{"docs/operations.md": 4, "status/monitoring/alerts.yaml": 10} {
		page, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		found := metric.FindAllString(string(page), -1)
		if len(found) < least {
			t.Errorf("got %d metrics in %s, want at least %d", len(found), name, least)
		}
		for _, m := range found {
			if !known[m] {
				t.Errorf("%s: there is no metric %s", name, m)
			}
		}
	}
}
