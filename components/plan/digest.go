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

// Digest returns a digest of a plan: of its changes and of the complete resulting state, including
// parts that the plan does not show. Two plans with the same digest do the same. Warnings are not
// included.
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

// add writes values as JSON, which sorts the keys of maps, one per line. All values in a plan can
// be encoded.
func add(w io.Writer, values ...any) {
	e := json.NewEncoder(w)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			fmt.Fprintln(w, err)
		}
	}
}
