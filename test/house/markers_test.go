package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No page has what a merge leaves where two changes met.
func TestPagesAreMerged(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	for _, p := range pages {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"<<<<<<< ", ">>>>>>> "} {
			if strings.Contains(string(b), "\n"+mark) {
				t.Errorf("%s has a line that begins with %q", p, mark)
			}
		}
	}
}
