package debian

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Lines returns the lines of a list that are neither empty nor comments.
func Lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// Key is the key of a cache entry: a SHA-256 over named fields, each with its length, so that no
// two inputs collide.
type Key struct {
	w   io.Writer
	sum func() string
}

// NewKey starts a key with unnamed fields.
func NewKey(fields ...string) Key {
	sha := sha256.New()
	k := Key{w: sha, sum: func() string { return hex.EncodeToString(sha.Sum(nil))[:12] }}
	for _, f := range fields {
		k.Field("", f)
	}
	return k
}

// Field adds a field.
func (k Key) Field(name, content string) {
	// Writing to a hash does not fail (hash.Hash).
	fmt.Fprintf(k.w, "%q %d %s\n", name, len(content), content)
}

// List adds a list as a field.
func (k Key) List(name string, lines []string) { k.Field(name, strings.Join(lines, "\n")) }

// Sum returns the key, 12 hex digits.
func (k Key) Sum() string { return k.sum() }
