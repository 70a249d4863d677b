package templates_test

import (
	"io/fs"
	"strings"
	"testing"

	"regiond.dev/regiond/components/templates"
)

// An image that is uploaded slowly, chunk by chunk, is not given up, and does not keep all others out.
func TestSlowUploads(t *testing.T) {
	read := func(name string) string {
		b, err := fs.ReadFile(templates.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if ini := read("files/uwsgi/api.ini"); !strings.Contains(ini, "\nchunked-input-timeout = 600\n") {
		t.Error("the pause between two chunks is bounded by the time-out of sockets")
	}
	_, glance, _ := strings.Cut(read("values/defaults.yaml"), "\nglance:\n")
	glance, _, _ = strings.Cut(glance, "\n\n")
	if strings.Contains(glance, "processes: 1, threads: 1}") {
		t.Error("Glance serves one request at a time")
	}
}
