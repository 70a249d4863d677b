package configgen

import (
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"
)

// ValueInfo describes a value of the templates to those who want to set it.
type ValueInfo struct {
	Path    string `json:"path"`
	Takes   string `json:"takes"`
	Default any    `json:"default"`
	// Releases whose default is another one.
	Releases map[string]any `json:"releases,omitempty"`
	Means    string         `json:"means"`
}

// ListValues are the values whose path has the pattern in it, or matches it as a shell pattern,
// sorted. An empty pattern takes all.
func (s *Source) ListValues(pattern string) (list []ValueInfo) {
	for _, p := range sortedKeys(s.schema) {
		// A pattern that is not one matches nothing.
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
	object, _ := v.(map[string]any) // of anything else nothing is below
	return lookup(object, rest)
}

// defaults in words.
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

What can be set below ` + "`values` and `overrides`" + ` of a cluster or of one of its nodes. Any other option of a service is given as
` + "`PROJECT.conf.SECTION.OPTION`" + ` and checked against the release's own option data. ` + "`regiond config values`" + ` prints this list,
` + "`regiond config explain`" + ` shows where a value in force comes from. This page is generated.

* An option and the value for the same line can't both be given. Options that say who a node is, where broker and database are, and with
  which password, are regiond's own.
* An option's secret is given by its name, ` + "`{secret: NAME}`" + `, and set by ` + "`regiond secret set CLUSTER NAME --from-file FILE`" + `.
* A YAML list is one line, its items joined by commas; for options that may be given several times it is one line for each item.
* A ` + "`$`" + ` arrives as it was written. At the beginning of a word it stands for another option if it names one (` + "`$my_ip`" + `); ` + "`$$my_ip`" + ` writes such a name.

The APIs are served at the cluster's ` + "`address`" + `, over HTTP, in the Keystone region that is called as the region. Physical networks are taken
to have an MTU of 1500 bytes: set ` + "`neutron.global_physnet_mtu`" + ` to what switches and interfaces carry.

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
