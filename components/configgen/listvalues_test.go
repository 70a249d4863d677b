package configgen

import (
	"os"
	"strings"
	"testing"

	"regiond.dev/regiond/components/templates"
)

// The page of values matches the templates. To regenerate it: UPDATE=1 go test
// ./components/configgen -run Page
func TestValuesPage(t *testing.T) {
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteValuesPage(&b, s.ListValues("")); err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/values.md"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Errorf("%s differs from the templates' values; regenerate it: UPDATE=1 go test ./components/configgen -run Page", page)
	}
}

func TestListValues(t *testing.T) {
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteValues(&b, s.ListValues("watermark")); err != nil {
		t.Fatal(err)
	}
	want := `VALUE                           DEFAULT  MEANS
rabbitmq.memory_high_watermark  "512MB"  memory above which publishers wait; bytes of at least 67108864, or a number with one of the units k, kiB, M, MiB, G, GiB, kB, MB, GB, e.g. 512MB
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for pattern, n := range map[string]int{"": len(s.schema), "nova.live_migration.*": 6, "keystone.region": 1, "no such": 0} {
		if got := s.ListValues(pattern); len(got) != n {
			t.Errorf("%q: got %d values, want %d", pattern, len(got), n)
		}
	}
	if got := s.ListValues("parallel_connections")[0].defaults(); got != "1 (gazpacho: 2)" {
		t.Errorf("got the default %s", got)
	}
	// A template uses every value.
	for path := range s.schema {
		if !s.used[path] {
			t.Errorf("no template uses %s", path)
		}
	}
}
