// Package eventtest plays the recorder of Events in tests.
package eventtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Book is an event.Recorder that keeps what it is told, as lines "name: type reason: note". Its
// zero value is ready to use.
type Book struct {
	mu    sync.Mutex
	lines []string
}

// Eventf implements event.Recorder.
func (b *Book) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf("%s: %s %s: %s", regarding.(client.Object).GetName(), eventType, reason, fmt.Sprintf(note, args...)))
}

// Lines returns the Events so far that begin with a text, in their order.
func (b *Book) Lines(begin string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.lines), func(l string) bool { return !strings.HasPrefix(l, begin) })
}
