package plan

import (
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"regiond.dev/regiond/components/rollout"
)

// FileChange is the change of a configuration file.
type FileChange struct {
	Path   string         `json:"path"`
	Action rollout.Action `json:"action"`
	// Diff is a unified diff of the content with secrets hidden. Empty for a new file.
	Diff string `json:"diff,omitempty"`
	// SecretsOnly is true if nothing but secrets differs.
	SecretsOnly bool `json:"secretsOnly,omitempty"`
	// Attributes that change: mode and owner.
	Attributes string `json:"attributes,omitempty"`
}

// diffContext is how many lines around a change are shown.
const diffContext = 2

func diffFile(path string, had, has bool, before, after string, redact func(string) string) FileChange {
	f := FileChange{Path: path, Action: rollout.ActionUpdate}
	switch {
	case !had:
		f.Action = rollout.ActionCreate
		return f
	case !has:
		f.Action = rollout.ActionDelete
		return f
	case before == after:
		return f
	}
	a, b := redact(before), redact(after)
	if a == b {
		f.SecretsOnly = true
		return f
	}
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(a), B: lines(b), Context: diffContext})
	if err != nil {
		diff = fmt.Sprintf("no diff: %v", err) // writing to a buffer never fails
	}
	f.Diff = diff
	return f
}

// lines splits a text into lines, each with its newline.
func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	last := len(all) - 1
	if all[last] == "" {
		return all[:last]
	}
	all[last] += "\n"
	return all
}
