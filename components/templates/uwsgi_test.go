package templates_test

import (
	"io/fs"
	"strconv"
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
	ini := read("files/uwsgi/api.ini")
	if !strings.Contains(ini, "\nchunked-input-timeout = 600\n") {
		t.Error("the pause between two chunks is bounded by the time-out of sockets")
	}
	const chunk = 1 << 20 // of python-glanceclient
	_, limit, _ := strings.Cut(ini, "\nchunked-input-limit = ")
	limit, _, _ = strings.Cut(limit, "\n")
	if n, err := strconv.Atoi(limit); err != nil || n <= chunk+64 {
		t.Errorf("chunked-input-limit: got %q, want more than a chunk of %d bytes with the line before it", limit, chunk)
	}
	_, glance, _ := strings.Cut(read("values/defaults.yaml"), "\nglance:\n")
	glance, _, _ = strings.Cut(glance, "\n\n")
	if strings.Contains(glance, "processes: 1, threads: 1}") {
		t.Error("Glance serves one request at a time")
	}
}
