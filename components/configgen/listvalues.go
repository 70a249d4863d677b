package configgen

import (
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"
)

// ValueInfo describes a value of the templates for people who want to set it.
type ValueInfo struct {
	Path    string `json:"path"`
	Takes   string `json:"takes"`
	Default any    `json:"default"`
	// Releases with a different default.
	Releases map[string]any `json:"releases,omitempty"`
	Means    string         `json:"means"`
}

// ListValues returns the values whose path contains the pattern, or matches it as a shell pattern,
// sorted. An empty pattern selects all.
func (s *Source) ListValues(pattern string) (list []ValueInfo) {
	for _, p := range sortedKeys(s.schema) {
		// An invalid pattern matches nothing.
		if whole, _ := path.Match(pattern, p); !whole && !strings.Contains(p, pattern) {
			continue
		}
		v := ValueInfo{Path: p, Takes: s.schema[p].takes(), Means: s.schema[p].Means}
		for _, f := range s.defaults {
			if d, there := lookup(f.tree, p); there {
				v.Default = d
			}
		}
		if p == regionValue {
			v.Default = "the region's name"
		}
		for release, files := range s.releases {
			for _, f := range files {
				if d, there := lookup(f.tree, p); there {
					if v.Releases == nil {
						v.Releases = map[string]any{}
					}
					v.Releases[release] = d
				}
			}
		}
		list = append(list, v)
	}
	return list
}

// regionValue is the one value whose default is a fact.
const regionValue = "keystone.region"

func lookup(tree map[string]any, p string) (any, bool) {
	key, rest, below := strings.Cut(p, ".")
	v, ok := tree[key]
	if !below || !ok {
		return v, ok
	}
	object, _ := v.(map[string]any) // other values have no children
	return lookup(object, rest)
}

// defaults describes the defaults.
func (v ValueInfo) defaults() string {
	words := showValue(v.Default)
	if v.Path == regionValue {
		words = fmt.Sprint(v.Default)
	}
	for _, release := range sortedKeys(v.Releases) {
		words += fmt.Sprintf(" (%s: %s)", release, showValue(v.Releases[release]))
	}
	return words
}

// WriteValues writes values as a table for people.
func WriteValues(w io.Writer, list []ValueInfo) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VALUE\tDEFAULT\tMEANS")
	for _, v := range list {
		fmt.Fprintf(t, "%s\t%s\t%s; %s\n", v.Path, v.defaults(), v.Means, v.Takes)
	}
	return t.Flush()
}

// WriteValuesPage writes values as a page of Markdown.
func WriteValuesPage(w io.Writer, list []ValueInfo) error {
	var b strings.Builder
	b.WriteString(`# Values of an OpenStack cluster

Values that can be set below ` + "`values` and `overrides`" + ` of a cluster or of one of its nodes. Any other option of a service is set by
` + "`PROJECT.conf.SECTION.OPTION`" + ` and checked against the option data of the release. ` + "`regiond config values`" + ` prints this list, and
` + "`regiond config explain`" + ` shows where a value in force comes from. This page is generated.

* An option and the value for the same line can't both be set. regiond itself sets the options that identify a node, and those that
  locate the broker and the database and authenticate to them.
* A secret option refers to a secret by name, ` + "`{secret: NAME}`" + `, which is set with ` + "`regiond secret set CLUSTER NAME --from-file FILE`" + `.
* A YAML list gives one line with its items joined by commas; for options that may be repeated it gives one line per item.
* A ` + "`$`" + ` reaches the service as written. At the beginning of a word it refers to another option if it names one (` + "`$my_ip`" + `); ` + "`$$my_ip`" + ` gives the literal text.

The APIs are served at the cluster's ` + "`address`" + `, over HTTP, in a Keystone region with the region's name. Physical networks are assumed
to have an MTU of 1500 bytes: set ` + "`neutron.global_physnet_mtu`" + ` to the MTU of switches and interfaces.

| value | takes | default | means |
|---|---|---|---|
`)
	cell := strings.NewReplacer("|", `\|`)
	for _, v := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.Path, cell.Replace(v.Takes), cell.Replace(v.defaults()), cell.Replace(v.Means))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
