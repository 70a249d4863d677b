package nodeinit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := newLogFile(dir, "x.service")
	line := bytes.Repeat([]byte("x"), 1<<20)
	for range 20 {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Write([]byte("\nthe end\n\nha")); err != nil || l.lastLine() != "ha" {
		t.Errorf("%v %q", err, l.lastLine())
	}
	for _, f := range []string{"x.log", "x.log.1"} {
		if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() > maxLog {
			t.Errorf("%s: %v %v", f, st, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v %v", list, err)
	}
}
