// Package configgen renders the configuration of OpenStack's services, of pods and of nodes alike, from one source: a folder of
// templates and values (components/templates), the region's declaration, and secrets in the same tree.
//
//	src, err := configgen.Load(configgen.Templates{...})          // once; safe for concurrent use
//	v, warnings, err := src.Values(configgen.Cluster{...})        // the cluster's merged tree
//	files, warnings, err := src.Render(v, "nova")                 // files of a role of pods
//	conf, warnings, err := src.Node(v, configgen.Node{...})       // what a compute node is to run
//
// Load takes several folders of templates: those of OpenStack, and of bundles. Each owns its files, services and values.
//
// Everything here is a pure function of its arguments: same input, same bytes. Errors name all that is wrong at once.
//
// # Values
//
// Every leaf knows which layer gave it and where. Layers, weakest first: defaults.yaml and
// RELEASE.yaml (soft: anything replaces them), facts of the cluster, values of the cluster in
// region.yaml, its overrides, values of the node, its overrides. Two layers that are not soft and
// disagree are an error unless the stronger one is an override. Lists are leaves: they are
// replaced, not joined. Secrets are merged into the same tree and stay marked as secret.
//
// # Templates
//
// The language is the part of Go's text/template that translates to Jinja2 without loss:
//
//	{{ .a.b }}   {{ join .list "," }}   {{ if .a }} {{ else if eq .b "x" }} {{ else }} {{ end }}   {{ range .list }}{{ . }} {{ .name }}{{ end }}
//
// with eq, ne, and, or, not and parentheses in conditions, and trim markers. A variable that no
// layer sets is an error, in a condition too: give it a default. true and false are printed as
// such, whole numbers without a fraction, other numbers as Python does. Below range, only the item
// can be seen.
//
// # Options
//
// In files with `options: PROJECT`, the value PROJECT.conf.SECTION.OPTION replaces that option's
// line, or adds one; a list makes one line for each item. If a role has several files of one
// project, those that have the option get it, else those that have the section, else the first one.
// All options that were rendered are checked against those of the release (options/RELEASE.json).
package configgen
