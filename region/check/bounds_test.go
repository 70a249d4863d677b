package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a file would grow to is known before it does: each of these killed regiond by memory, or
// took a minute.
func TestFilesWithoutEnd(t *testing.T) {
	begin := "apiVersion: regiond.dev/v1alpha1\nkind: Region\nmetadata: {name: a}\nspec:\n  openstack:\n    clusters:\n      - name: a\n        values:\n"
	bomb := begin + "          a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("          a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	name, long := strings.Repeat("k", 1000), strings.Repeat("k", 100_000)
	for name, tc := range map[string]struct{ text, at, want string }{
		"a cyclic alias":              {begin + "          a: &a {b: *a}\n", "9:21", "the alias *a stands within what it is an alias of; write a smaller file, without aliases to aliases"},
		"a cyclic alias in a list":    {begin + "          a: &a\n            - [1, *a]\n", "10:19", "the alias *a stands within what it is an alias of"},
		"a cyclic alias in a field":   {"kind: Region\nmetadata: &a {labels: *a}\n", "2:23", "the alias *a stands within"},
		"aliases of aliases":          {bomb, "", "the file has more than 200000 values, counting aliases as often as they are used"},
		"long names, often":           {begin + "          c: &a {b: 1, c: 2}\n          d: {" + name + ": [" + strings.TrimSuffix(strings.Repeat("*a, ", 20_000), ", ") + "]}\n", "", "the file has more than 32 MiB"},
		"a long text, often":          {begin + "          a: &a " + long + "\n          b: [" + strings.TrimSuffix(strings.Repeat("*a, ", 400), ", ") + "]\n", "", "the file has more than 32 MiB"},
		"many levels":                 {begin + "          a: " + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + "\n", "9:73", "is more than 64 levels deep"},
		"more levels than YAML reads": {begin + "          a: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "\n", "", "exceeded max depth"},
	} {
		started := time.Now()
		_, err := Load([]byte(tc.text), "")
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %.300v, want one line with %s", name, err, tc.want)
			continue
		}
		if at := fmt.Sprintf("%d:%d", problems[0].Line, problems[0].Column); tc.at != "" && at != tc.at {
			t.Errorf("%s: at %s, want %s", name, at, tc.at)
		}
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// The cause is said, at its place, once.
func TestTrueCauses(t *testing.T) {
	head := "apiVersion: regiond.dev/v1alpha1\nkind: Region\nmetadata: {name: a}\nspec:\n"
	for name, tc := range map[string]struct{ text, want string }{
		"a release by its number": {head + "  openstack: {clusters: [{name: a, release: 2025.1}]}\n",
			`5:45: spec.openstack.clusters[0].release: "2025.1" is a number, must be a string; did you mean "epoxy"?`},
		"a release by its number in quotes": {head + "  openstack: {clusters: [{name: a, release: '2026.1'}]}\n",
			`5:45: spec.openstack.clusters[0].release: "2026.1" is not supported; did you mean "gazpacho"?`},
		"Cyrillic letters":         {head + "  nеtworks: {}\n", `5:3: spec.nеtworks: unknown field; its character 2 is U+0435, which is not ASCII; did you mean "networks"?`},
		"a no-break space":         {head + "  networks:\u00a0{}\n", "its character 10 is U+00A0, which is not ASCII"},
		"a broken second document": {head + "  networks: {}\n---\na: 1\nb: [1,\nc: 2\n", "r:8:1: not valid YAML: did not find expected ',' or ']'"},
		"a broken second document after a text of two lines": {head + "  networks: {}\na: \"x\n  y\"\n---\na: b: c\n",
			"r:9:1: not valid YAML: mapping values are not allowed in this context"},
	} {
		_, err := Load([]byte(tc.text), "r")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v\nwant %s", name, err, tc.want)
		}
	}
	_, err := Load(make([]byte, MaxFileSize+1), "")
	if want := "the file has more than the 786432 bytes that a region may have; is this the right file?"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
