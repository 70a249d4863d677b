//go:build integration

package render

import (
	"flag"
	"testing"
)

var (
	nodes   = flag.Int("nodes", 1000, "nodes that regiond renders")
	ansible = flag.Int("ansible", 1, "nodes that ansible renders")
)

// Configuration of a thousand nodes: at least 20 times as fast as Debian's ansible, and in constant memory.
func TestMeasure(t *testing.T) {
	f, err := Measure(t.Context(), t.TempDir(), *nodes, *ansible)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("regiond: %d nodes, %d files in %v; memory %d -> %d KiB; ansible: %d nodes in %v; ratio %.0f",
		f.Nodes, f.Files, f.Elapsed, f.Early>>10, f.Late>>10, f.AnsibleNodes, f.AnsibleElapsed, f.Ratio())
	if f.Ratio() < 20 || f.Growth() > 1.25 {
		t.Errorf("ratio %.1f, at least 20 is wanted; growth %.2f, at most 1.25", f.Ratio(), f.Growth())
	}
}
