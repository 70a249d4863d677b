// Package condition writes the texts of conditions and other statuses. Kubernetes refuses a status
// as a whole when one message in it is too long, and what goes into messages - names of disks,
// errors of other programs - has any length.
package condition

import (
	"fmt"
	"strings"
)

const (
	// MaxMessage bounds a message in bytes. A condition may have 32768 (metav1.Condition); people read
	// less.
	MaxMessage = 4096
	// MaxList bounds a list inside of a message in bytes, so that there is room for what to do about
	// it.
	MaxList = 1536
)

// Message returns a text that fits a condition: at most MaxMessage bytes of valid UTF-8.
func Message(text string) string { return Clip(text, MaxMessage) }

// Clip cuts a text to at most n bytes, never within a character, and says with three dots that it
// did.
func Clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= n {
		return text
	}
	const dots = "..."
	return strings.ToValidUTF8(text[:max(n-len(dots), 0)], "") + dots
}

// List joins items and counts those for which there is no room: "sda; sdb; and 40 more".
func List(items []string, separator string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteString(separator)
		}
		// The last one needs no room for a count.
		room := MaxList - b.Len() - len(separator) - len("and 9999999 more")
		if i == len(items)-1 {
			room = MaxList - b.Len()
		}
		switch {
		case len(item) <= room:
			b.WriteString(item)
		case i == 0:
			b.WriteString(Clip(item, room))
		default:
			fmt.Fprintf(&b, "and %d more", len(items)-i)
			return b.String()
		}
	}
	return b.String()
}
