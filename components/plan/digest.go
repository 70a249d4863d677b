package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Digest of a plan: of what it changes, and of all that is to be there when it was done, also where
// the plan shows only a part of it. Two plans with one digest do the same. Warnings do not count.
func (p *Plan) Digest() string {
	h := sha256.New()
	add(h, p.Region, p.Declarations, p.Machines, p.Removed())
	for _, o := range p.objects {
		add(h, o.Object)
	}
	for _, c := range p.Clusters {
		shown := *c
		shown.Warnings = nil
		add(h, shown)
		if c.state == nil {
			continue
		}
		for _, o := range c.state.Objects {
			add(h, o.Object)
		}
		for _, name := range slices.Sorted(maps.Keys(c.state.Nodes)) {
			add(h, name, c.state.Nodes[name])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// add values in JSON, which sorts the keys of maps, each ended by a newline. Nothing in a plan can't be written in JSON.
func add(w io.Writer, values ...any) {
	e := json.NewEncoder(w)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			fmt.Fprintln(w, err)
		}
	}
}
