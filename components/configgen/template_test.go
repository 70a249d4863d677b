package configgen

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"text/template"
)

func TestTemplatesRefuse(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{{ printf \"%s\" .x }}":          `x:2: function "printf" not defined`,
		"{{ .x | join \",\" }}":              "x:1:",
		"a\n\n{{ $x := .y }}":                "x:3:",
		"{{ with .x }}{{ end }}":             "x:1:",
		"{{ template \"a\" }}":               "x:1:",
		"{{ define \"a\" }}{{ end }}":        "x:1:",
		"{{ range .x }}{{ else }}{{ end }}":  "x:1:",
		"{{ range $i, $x := .x }}{{ end }}":  "x:1:",
		"{{ range .x }}{{ $.y }}{{ end }}":   "x:1:",
		"{{ range .x }}{{ break }}{{ end }}": "x:1:",
		"{{ . }}":                            "x:1:",
		"{{ \"x\" }}":                        "x:1:",
		"{{ eq .a .b }}":                     "x:1:",
		"{{ if eq .a .b .c }}{{ end }}":      "x:1:",
		"{{ if eq (not .a) .b }}{{ end }}":   "x:1:",
		"{{ if gt .a 1 }}{{ end }}":          `function "gt" not defined`,
		"{{ if eq .a 1.5 }}{{ end }}":        "x:1:",
		"{{ if \"a\" }}{{ end }}":            "x:1:",
		"{{ (.a).b }}":                       "x:1:",
		"{{ .a.b 1 }}":                       "x:1:",
		"{{ join .a .b }}":                   "x:1:",
		"{{ if .a }}":                        "x:1: unexpected EOF",
		"a\r\n":                              "x:1: has a carriage return",
		strings.Repeat("{{ if .a }}", 9) + strings.Repeat("{{ end }}", 9): "nested more than 8 deep",
	} {
		_, err := parseTemplate("x", source)
		if err == nil {
			t.Errorf("%q was accepted", source)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line feed") && !strings.Contains(err.Error(), allowed) {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func TestOptionFilesRefuse(t *testing.T) {
	for source, want := range map[string]string{
		"a = 1\n[DEFAULT]\n": "x:1: option a comes before the first [section]",
		"[a]\nb = 1":         "x:2: the file, or a block of whole lines, does not end with a line break",
		"[a]\n{{ if .x }}\n[b]\nc = 1\n{{ end }}\nd = 1\n": "x:6: the section of d depends on the block above",
		"[a]\nb = {{ if .x }}1\nc = 2{{ end }}\n":          "x:2: this block has whole lines, but begins in the middle of one",
		"[a]\n{{ .x }} = 1\n":                              "x:2: the name of a section or an option must not be computed by the template",
		"[a]\nhello\n":                                     "neither a section, an option nor a comment",
	} {
		statements, err := parseTemplate("x", source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = parseRows("x", statements); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", source, err, want)
		}
	}
}

// An option in values replaces the template's line, wherever it is.
func TestSetOptions(t *testing.T) {
	for name, tc := range map[string]struct{ template, conf, want string }{
		"in place":          {"[a]\nx = 1\ny = 2\n", `{"a": {"x": 5}}`, "[a]\nx = 5\ny = 2\n"},
		"with its rest":     {"[a]\nx = 1,\n  2,\n  3\ny = 2\n", `{"a": {"x": 5}}`, "[a]\nx = 5\ny = 2\n"},
		"several lines":     {"[a]\nx = 1\ny = 2\nx = 3\n", `{"a": {"x": 5}}`, "[a]\nx = 5\ny = 2\n"},
		"a list":            {"[a]\nx = 1\ny = 2\n", `{"a": {"x": [5, 6]}}`, "[a]\nx = 5\nx = 6\ny = 2\n"},
		"an empty list":     {"[a]\nx = 1\ny = 2\n", `{"a": {"x": []}}`, "[a]\ny = 2\n"},
		"added":             {"[a]\nx = 1\n\n# of b\n[b]\ny = 2\n", `{"a": {"z": 5}}`, "[a]\nx = 1\nz = 5\n\n# of b\n[b]\ny = 2\n"},
		"to an empty one":   {"[a]\n\n[b]\ny = 2\n", `{"a": {"z": 5}}`, "[a]\nz = 5\n\n[b]\ny = 2\n"},
		"a new section":     {"[a]\nx = 1\n", `{"c": {"z": true, "y": "s"}, "b": {"q": 1.5}}`, "[a]\nx = 1\n\n[b]\nq = 1.5\n\n[c]\ny = s\nz = true\n"},
		"of a block":        {"[a]\nw = 1\n{{ if .yes }}x = 1\n{{ end }}y = 2\n", `{"a": {"x": 5}}`, "[a]\nw = 1\ny = 2\nx = 5\n"},
		"of a block, unset": {"[a]\nw = 1\n{{ if .no }}x = 1\n{{ else }}v = 2\n{{ end }}y = 2\n", `{"a": {"x": 5}}`, "[a]\nw = 1\nv = 2\ny = 2\nx = 5\n"},
		"with dashes":       {"[a]\nx-y = 1\n", `{"a": {"x_y": 5}}`, "[a]\nx_y = 5\n"},
		"in a line's if":    {"[a]\nx = {{ if .yes }}1{{ else }}2{{ end }}\ny = 1\n", `{"a": {"x": 5}}`, "[a]\nx = 5\ny = 1\n"},
		"before a block":    {"[a]\nx = 1\n{{ if .yes }}\n[b]\ny = 1\n{{ end }}\n", `{"a": {"z": 5}}`, "[a]\nx = 1\nz = 5\n\n[b]\ny = 1\n\n"},
		"another section's": {"[a]\nx = 1\n[b]\nx = 2\n", `{"b": {"x": 5}}`, "[a]\nx = 1\n[b]\nx = 5\n"},
		"a file of nothing": {"", `{"b": {"x": 5}}`, "[b]\nx = 5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := renderOne(t, tc.template, `{"yes": true, "no": false, "p": {"conf": `+tc.conf+`}}`)
			if got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

// renderOne renders a template of project p with values.
func renderOne(t testing.TB, source, values string) string {
	t.Helper()
	statements, err := parseTemplate("x", source)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseRows("x", statements)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := decodeObject([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	root, errs := merge(empty, &layer{name: "test", tree: tree, where: func(p string) string { return p }})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	options, wrong := optionsOf(root, "p")
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	e := &evaluation{template: "x", values: &Values{cluster: &Cluster{}}, root: root, src: &Source{}}
	e.run(flatten(setOptions(rows, options)))
	if len(e.errs) > 0 {
		t.Fatal(e.errs)
	}
	return string(e.buf)
}

func TestPrinting(t *testing.T) {
	got := renderOne(t, "[a]\nx = {{ .s }} {{ .b }} {{ .i }} {{ .f }} {{ .g }} {{ .h }} {{ .w }}\n",
		`{"s": "x", "b": true, "i": -3, "f": 1.5, "g": 0.00001, "h": 1e22, "w": 16.0}`)
	if want := "[a]\nx = x true -3 1.5 1e-05 1e+22 16\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzTemplates compares with Go's own template package, before and after the template is parsed
// into rows.
func FuzzTemplates(f *testing.F) {
	for _, seed := range []string{
		"[a]\nx = {{ .s }}\n{{- if .yes }}\ny = 1\n{{- end }}\nz = 2\n",
		"[a]\n{{ if eq .s \"x\" -}}\nq = {{ join .l \",\" }}\n{{ else if .no }}r = 1\n{{ else }}\n{{ end -}}\n",
		"[a]\nx = 1\n{{- if .yes }}\n{{- if .no }}\nb = 1\n{{- end }}\nc = 2\n{{- end }}\n{{- range .l }}\nx = {{ . }}\n{{- end }}\nd = {{{ .s }}\n",
		"[a]\nx={{ range .m }}{{ .n }}:{{ if .b }}1{{ end }},{{ end }}\n{{/* c */}}\n",
		"[a]\nx = 1{{ if .yes }}\n{{ else if and .no (or .yes (not .s)) }}\ny = 2\n{{ end }}",
	} {
		f.Add(seed)
	}
	values := `{"s": "x", "yes": true, "no": false, "l": ["p", "q"], "m": [{"n": 1, "b": true}, {"n": 2, "b": false}], "d": {"e": 5}}`
	var plain map[string]any
	if err := json.Unmarshal([]byte(values), &plain); err != nil {
		f.Fatal(err)
	}
	tree, err := decodeObject([]byte(values))
	if err != nil {
		f.Fatal(err)
	}
	root, _ := merge(empty, &layer{name: "test", tree: tree, where: func(p string) string { return p }})
	funcs := template.FuncMap{"join": func(list []any, s string) string {
		out := make([]string, len(list))
		for i, v := range list {
			out[i], _ = printed(v)
		}
		return strings.Join(out, s)
	}}
	f.Fuzz(func(t *testing.T, source string) {
		statements, err := parseTemplate("x", source)
		if err != nil {
			return
		}
		run := func(list []statement) (string, bool) {
			e := &evaluation{template: "x", values: &Values{cluster: &Cluster{}}, root: root, src: &Source{}}
			e.values.cluster.Declaration = realDeclaration
			e.run(list)
			return string(e.buf), len(e.errs) == 0
		}
		got, ok := run(statements)
		// It must not panic, whatever the input.
		translate(statements, func(p []string) string { return subscripts(p) }, func([]string) bool { return false })
		if !ok {
			return
		}
		var b bytes.Buffer
		reference := template.Must(template.New("x").Funcs(funcs).Option("missingkey=error").Parse(source))
		if err := reference.Execute(&b, plain); err == nil && b.String() != got {
			t.Errorf("%q: got %q, text/template %q", source, got, b.String())
		}
		if whole, _ := run(wholeLines(statements, false)); whole != got {
			t.Errorf("%q: %q after moving line breaks, %q before", source, whole, got)
		}
		rows, err := parseRows("x", statements)
		if err != nil {
			return
		}
		if again, _ := run(flatten(rows)); again != got {
			t.Errorf("%q: %q from rows, %q before", source, again, got)
		}
	})
}
