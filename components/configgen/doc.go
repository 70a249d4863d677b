// Package configgen renders the configuration of OpenStack's services, for both pods and nodes,
// from one source: a folder of templates and values (components/templates), the region's
// declaration, and secrets in the same tree.
//
//	src, err := configgen.Load(configgen.Templates{...})          // once; safe for concurrent use
//	v, warnings, err := src.Values(configgen.Cluster{...})        // the cluster's merged tree
//	files, warnings, err := src.Render(v, "nova")                 // files of a role of pods
//	conf, warnings, err := src.Node(v, configgen.Node{...})       // the configuration of a compute host
//
// Load accepts several folders of templates: OpenStack's and those of bundles. Each owns its files,
// services and values.
//
// Everything here is a pure function of its arguments: the same input gives the same bytes. Errors
// report all problems at once.
//
// # Values
//
// Every leaf records which layer set it and where. Layers, weakest first: defaults.yaml and
// RELEASE.yaml (soft: any other layer replaces them), facts of the cluster, values of the cluster
// in region.yaml, its overrides, values of the node, its overrides. It is an error if two layers
// that are not soft disagree, unless the stronger one is an override. Lists are leaves: they are
// replaced, not joined. Secrets are merged into the same tree and stay marked as secret.
//
// # Templates
//
// The language is the subset of Go's text/template that translates to Jinja2 without loss:
//
//	{{ .a.b }}   {{ join .list "," }}
//	{{ if .a }} {{ else if eq .b "x" }} {{ else }} {{ end }}
//	{{ range .list }}{{ . }} {{ .name }}{{ end }}
//
// with eq, ne, and, or, not and parentheses in conditions, and trim markers. A variable that no
// layer sets is an error, even in a condition: give it a default. true and false are printed as
// such, integers without a fraction, other numbers as in Python. Inside range, only the item is
// visible.
//
// # Options
//
// In files with `options: PROJECT`, the value PROJECT.conf.SECTION.OPTION replaces that option's
// line, or adds one; a list gives one line per item. If a role has several files of one project,
// the option goes into those that already have it, else into those that have the section, else into
// the first one. All rendered options are checked against those of the release
// (options/RELEASE.json).
package configgen
