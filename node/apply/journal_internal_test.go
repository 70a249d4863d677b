package apply

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/machine/configuration"
)

// A secret that was rotated is nowhere in the journal, also where an earlier agent had kept it.
func TestJournalKeepsNoRotatedSecret(t *testing.T) {
	dir := t.TempDir()
	former := filepath.Join(dir, formerFile)
	if err := os.WriteFile(former, []byte(`{"content": "password = old"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	j := &journal{log: slog.New(slog.DiscardHandler), dir: dir}
	if err := j.load(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(former); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what an earlier agent kept is there still: %v", err)
	}
	for _, password := range []string{"first-password", "second-password"} {
		c := configuration.Configuration{Files: []configuration.File{{Path: "/etc/nova/nova.conf", Mode: "0640", Owner: "root", Group: "nova", Content: "password = " + password}}}
		content, digest, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := j.begin(&pending{applied: applied{Digest: digest, Content: string(content), Configuration: c}}); err != nil {
			t.Fatal(err)
		}
		if err := j.commit(func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || strings.Contains(string(b), "first-password") {
			t.Errorf("%s: %v\n%s", f.Name(), err, b)
		}
	}
}
