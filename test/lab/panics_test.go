package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPanics(t *testing.T) {
	log := filepath.Join(t.TempDir(), "console.log")
	if lines, next, err := panics(log, 0); len(lines) > 0 || next != 0 || err != nil {
		t.Errorf("got %q, %d, %v of a machine that was never on, want nothing", lines, next, err)
	}
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	var from int64
	for _, step := range []struct {
		name, text string
		want       []string
	}{
		{"a boot", "[    0.0] Linux version 6.12\r\nlogin: ", nil},
		{"half a line", "\r\n[  252.7] Kernel panic - not sync", nil},
		{"its end", "ing: Fatal exception in interrupt\r\n", []string{"Kernel panic - not syncing: Fatal exception in interrupt"}},
		{"the next boot", "[    0.0] Linux version 6.12\r\n", nil},
		{"two more", "Kernel panic - not syncing: A\nKernel panic - not syncing: B\n", []string{"Kernel panic - not syncing: A", "Kernel panic - not syncing: B"}},
	} {
		write(step.text)
		lines, next, err := panics(log, from)
		if err != nil || !slices.Equal(lines, step.want) {
			t.Errorf("%s: got %q, %v, want %q", step.name, lines, err, step.want)
		}
		from = next
	}
}
