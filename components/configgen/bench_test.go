package configgen

import (
	"fmt"
	"testing"

	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/region"
)

// BenchmarkNode renders one of a thousand nodes, each with its own value.
func BenchmarkNode(b *testing.B) {
	s, err := Load(Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		b.Fatal(err)
	}
	c := realCluster(b, s, region.ReleaseEpoxy)
	for i := range 1000 {
		c.Declaration.Nodes = append(c.Declaration.Nodes, own(fmt.Sprintf("r%d", i),
			fmt.Sprintf(`{"nova": {"conf": {"DEFAULT": {"reserved_host_memory_mb": %d}}}}`, i), ""))
	}
	v := mustValues(b, s, c)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, _, err := s.Node(v, Node{Name: fmt.Sprintf("r%d", i%1000), Address: "10.0.0.1"}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
