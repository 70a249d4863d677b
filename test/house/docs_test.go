package house

import (
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
