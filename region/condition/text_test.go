package condition_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"regiond.dev/regiond/region/condition"
)

func TestClip(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"", 10, ""}, {"short", 5, "short"}, {"longer", 5, "lo..."}, {"Grüße", 6, "Gr..."}, {"a\xffb", 10, "ab"}, {"long", 2, "..."},
	} {
		if got := condition.Clip(tc.text, tc.n); got != tc.want {
			t.Errorf("Clip(%q, %d) is %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
	if got := condition.Message(strings.Repeat("ü", 40000)); len(got) > condition.MaxMessage || !utf8.ValidString(got) {
		t.Errorf("message of %d bytes", len(got))
	}
}

func TestList(t *testing.T) {
	many := func(n, length int) (items []string) {
		for i := range n {
			items = append(items, fmt.Sprintf("%0*d", length, i))
		}
		return items
	}
	for name, tc := range map[string]struct {
		items []string
		want  func(s string) bool
	}{
		"none":          {nil, func(s string) bool { return s == "" }},
		"one":           {[]string{"sda"}, func(s string) bool { return s == "sda" }},
		"three":         {[]string{"sda", "sdb", "sdc"}, func(s string) bool { return s == "sda; sdb; sdc" }},
		"all fit":       {many(2, 760), func(s string) bool { return !strings.Contains(s, "more") && len(s) == 1522 }},
		"a thousand":    {many(1000, 100), func(s string) bool { return strings.HasSuffix(s, "; and 986 more") && strings.Count(s, "; ") == 14 }},
		"one too long":  {many(1, 5000), func(s string) bool { return strings.HasSuffix(s, "...") && len(s) == condition.MaxList }},
		"first is long": {many(3, 5000), func(s string) bool { return strings.HasSuffix(s, "...; and 2 more") }},
	} {
		if got := condition.List(tc.items, "; "); !tc.want(got) || len(got) > condition.MaxList {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
	}
}
