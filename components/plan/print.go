package plan

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/region"
)

// signs are the signs of actions, as in other tools.
var signs = map[rollout.Action]string{rollout.ActionCreate: "+", rollout.ActionUpdate: "~", rollout.ActionReplace: "±", rollout.ActionDelete: "-"}

// WriteText writes a plan for people: the changes, their consequences, and a summary as the last
// line.
func (p *Plan) WriteText(w io.Writer) error {
	var b bytes.Buffer
	if len(p.Declarations) > 0 {
		fmt.Fprintf(&b, "Region %s\n\n", p.Region)
		writeChanges(&b, p.Declarations)
	}
	writeMachines(&b, p.Machines)
	for _, c := range p.Clusters {
		c.write(&b)
	}
	fmt.Fprintln(&b, p.Summary())
	_, err := w.Write(b.Bytes())
	return err
}

// Writing to a bytes.Buffer never fails (bytes.Buffer.Write).
func (p *Cluster) write(b *bytes.Buffer) {
	if p.Empty() && len(p.Warnings) == 0 {
		return
	}
	fmt.Fprintf(b, "OpenStack cluster %s (%s)\n\n", p.Cluster, p.Release)
	writeChanges(b, p.Changes)
	for _, e := range p.Endpoints {
		fmt.Fprintf(b, "  %s Endpoint %s\n", signs[rollout.ActionDelete], e)
	}
	if len(p.Endpoints) > 0 {
		fmt.Fprintf(b, "      → clients that use these regions will find no endpoint\n\n")
	}
	for _, c := range p.Configs {
		fmt.Fprintf(b, "  Configuration of %s\n\n", c.Role)
		writeFiles(b, c.Files)
	}
	for _, alike := range groupNodes(p.Nodes) {
		writeNodes(b, alike)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(b, "  ! %s\n", w)
	}
	if len(p.Warnings) > 0 {
		fmt.Fprintln(b)
	}
}

// groupNodes groups hosts with the same change, because a region has many similar ones.
func groupNodes(nodes []NodeChange) [][]NodeChange {
	var groups [][]NodeChange
	places := map[string]int{}
	for _, n := range nodes {
		alike := n
		alike.Host = ""
		key := fmt.Sprintf("%#v", alike)
		i, known := places[key]
		if !known {
			i = len(groups)
			places[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}

// maxNamed is the maximum number of hosts that are named per group.
const maxNamed = 8

func writeNodes(b *bytes.Buffer, alike []NodeChange) {
	var names []string
	for _, n := range alike[:min(len(alike), maxNamed)] {
		names = append(names, n.Host)
	}
	others := ""
	if n := len(alike) - maxNamed; n > 0 {
		others = fmt.Sprintf(" and %d more", n)
	}
	n := alike[0]
	fmt.Fprintf(b, "  %s %s %s%s\n\n", signs[n.Action], plural(len(alike), "Node"), strings.Join(names, ", "), others)
	if n.Action == rollout.ActionDelete {
		fmt.Fprintf(b, "      → no longer configured; its files and services stay unchanged\n\n")
	}
	writeFiles(b, n.Files)
	for _, s := range n.Services {
		fmt.Fprintf(b, "      → %s of %s\n", s.Action, s.Name)
	}
	if n.CutsGuests {
		fmt.Fprintf(b, "      ! guests lose their network meanwhile: a host gets this change when it has no guests, or with regiond apply --disrupt\n")
	}
	if len(n.Services) > 0 {
		fmt.Fprintln(b)
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// count returns a number with its noun.
func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun)) }

func writeChanges(b *bytes.Buffer, changes []rollout.Change) {
	for _, c := range changes {
		fmt.Fprintf(b, "  %s %s\n", signs[c.Action], c.Object)
		for _, f := range c.Fields {
			switch {
			case f.Old == "":
				fmt.Fprintf(b, "      + %s: %s", f.Path, f.New)
			case f.New == "":
				fmt.Fprintf(b, "      - %s: %s", f.Path, f.Old)
			default:
				fmt.Fprintf(b, "      %s: %s → %s", f.Path, f.Old, f.New)
			}
			fmt.Fprintln(b, effects(f.Effects))
		}
		if c.Consequence != "" {
			fmt.Fprintf(b, "      → %s\n", c.Consequence)
		}
	}
	if len(changes) > 0 {
		fmt.Fprintln(b)
	}
}

// effects describes the effects of a field.
func effects(all []region.Effect) string {
	if len(all) == 0 {
		return ""
	}
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = e.String()
	}
	return "  (takes effect " + strings.Join(words, "; ") + ")"
}

// writeMachines writes the consequences for machines, and marks irreversible ones as warnings.
func writeMachines(b *bytes.Buffer, all []region.Consequence) {
	for _, c := range all {
		sign, about := "→", ""
		if c.Overwritten != nil {
			sign = "!"
		}
		if c.Server != "" {
			about = "server " + c.Server + ": "
		}
		fmt.Fprintf(b, "  %s %s%s\n", sign, about, c.Consequence)
	}
	if len(all) > 0 {
		fmt.Fprintln(b)
	}
}

func writeFiles(b *bytes.Buffer, files []FileChange) {
	for _, f := range files {
		fmt.Fprintf(b, "    %s %s", signs[f.Action], f.Path)
		if f.Attributes != "" {
			fmt.Fprintf(b, " (%s)", f.Attributes)
		}
		if f.SecretsOnly {
			fmt.Fprint(b, " (secrets only)")
		}
		fmt.Fprintln(b)
		for line := range strings.Lines(f.Diff) {
			fmt.Fprintf(b, "        %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if len(files) > 0 {
		fmt.Fprintln(b)
	}
}

// Summary summarizes a plan in one line.
func (p *Plan) Summary() string {
	if p.Empty() {
		return "No changes: the region is as declared."
	}
	counts := map[rollout.Action]int{}
	nodes, restarts := 0, []string{}
	tally := func(changes []rollout.Change) {
		for _, c := range changes {
			counts[c.Action]++
			if c.RestartsPods() {
				restarts = append(restarts, c.Object.Name)
			}
		}
	}
	tally(p.Declarations)
	services := map[string]int{}
	var order []string
	for _, c := range p.Clusters {
		tally(c.Changes)
		nodes += len(c.Nodes)
		counts[rollout.ActionDelete] += len(c.Endpoints)
		for _, n := range c.Nodes {
			for _, s := range n.Services {
				if s.Action == "start" {
					continue
				}
				if services[s.Name] == 0 {
					order = append(order, s.Name)
				}
				services[s.Name]++
			}
		}
	}
	var parts []string
	for _, a := range []struct {
		action rollout.Action
		words  string
	}{{rollout.ActionCreate, "to create"}, {rollout.ActionUpdate, "to change"}, {rollout.ActionReplace, "to replace"}, {rollout.ActionDelete, "to delete"}} {
		if n := counts[a.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, a.words))
		}
	}
	if nodes > 0 {
		parts = append(parts, count(nodes, "node")+" to configure")
	}
	for _, s := range order {
		restarts = append(restarts, s+" on "+count(services[s], "node"))
	}
	summary := "Plan: " + strings.Join(parts, ", ") + "."
	if len(restarts) > 0 {
		summary += " Affected: " + strings.Join(restarts, ", ") + "."
	}
	return summary
}

func decode(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	return string(b), err
}
