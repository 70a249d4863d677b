package check

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file with its aliases written out, so that a few lines of aliases to aliases
// ("billion laughs") do not become a large region. A region of 4,096 servers has some 50,000 values
// and 4 MB of paths; the deepest field of the schema is ten levels down.
const (
	maxValues = 200_000
	maxDepth  = 64
	maxBytes  = 32 << 20
)

// extent is what a node holds with all aliases in it written out.
type extent struct {
	values int
	// bytes of scalars, and of the paths of all values from this node on.
	bytes int
	depth int
}

// bounds measures nodes without expanding them.
type bounds struct {
	known map[*yaml.Node]extent
	// open nodes are those around the current one.
	open map[*yaml.Node]bool
	// at and message say what is wrong, once.
	at      *yaml.Node
	message string
}

// bounded reports a document that would be too large, too deep or without end if its aliases were
// written out.
func (w *walker) bounded(root *yaml.Node) bool {
	b := &bounds{known: map[*yaml.Node]extent{}, open: map[*yaml.Node]bool{}}
	b.measure(root, root, 0)
	if b.message != "" {
		w.add(nodePosition(b.at), Problem{Message: b.message, Suggestion: "write a smaller file, without aliases to aliases"})
	}
	return b.message == ""
}

// measure returns the extent of a node that stands at a place: the node itself, or an alias for it.
func (b *bounds) measure(n, at *yaml.Node, depth int) extent {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if e, known := b.known[n]; known {
		b.check(e, at, depth)
		return e
	}
	if b.open[n] {
		b.fail(at, fmt.Sprintf("the alias *%s stands within what it is an alias of", at.Value))
		return extent{}
	}
	e := extent{values: 1, bytes: len(n.Value)}
	b.open[n] = true
	b.check(e, at, depth)
	for i, c := range n.Content {
		if b.message != "" {
			break
		}
		isKey := n.Kind == yaml.MappingNode && i%2 == 0
		step := len("[0000]")
		if n.Kind == yaml.MappingNode && !isKey {
			step = 1 + len(n.Content[i-1].Value)
		}
		part := b.measure(c, c, depth+1)
		if isKey && c.Kind == yaml.ScalarNode {
			continue // its value has it in its path
		}
		e.values += part.values
		e.bytes += part.bytes + part.values*step
		e.depth = max(e.depth, part.depth+1)
		b.check(e, c, depth)
	}
	delete(b.open, n)
	b.known[n] = e
	return e
}

func (b *bounds) check(e extent, at *yaml.Node, depth int) {
	switch {
	case depth+e.depth > maxDepth:
		b.fail(at, fmt.Sprintf("is more than %d levels deep", maxDepth))
	case e.values > maxValues:
		b.fail(at, fmt.Sprintf("the file has more than %d values, counting aliases as often as they are used", maxValues))
	case e.bytes > maxBytes:
		b.fail(at, fmt.Sprintf("the file has more than %d MiB, counting aliases as often as they are used", maxBytes>>20))
	}
}

func (b *bounds) fail(at *yaml.Node, message string) {
	if b.message == "" {
		b.at, b.message = at, message
	}
}
