package templates_test

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/components/templates"
)

// An image that is uploaded slowly, chunk by chunk, does not time out and does not block all
// others.
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
		t.Error("the socket timeout bounds the pause between two chunks")
	}
	const chunk = 1 << 20 // of python-glanceclient
	_, limit, _ := strings.Cut(ini, "\nchunked-input-limit = ")
	limit, _, _ = strings.Cut(limit, "\n")
	if n, err := strconv.Atoi(limit); err != nil || n <= chunk+64 {
		t.Errorf("chunked-input-limit: got %q, want more than a chunk of %d bytes with the line before it", limit, chunk)
	}
	var values struct {
		Glance struct {
			UWSGI struct{ Processes, Threads int } `json:"uwsgi"`
		} `json:"glance"`
	}
	if err := yaml.Unmarshal([]byte(read("values/defaults.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if u := values.Glance.UWSGI; u.Processes*u.Threads < 4 {
		t.Errorf("Glance serves %d requests at a time, want at least 4: an upload holds one for as long as it takes", u.Processes*u.Threads)
	}
}

// An upload that holds all threads must not have the pod killed: whether it is alive is asked of the
// listener, which answers without a thread.
func TestGlanceIsAliveWhileAllUpload(t *testing.T) {
	base, err := kustomize.Base()
	if err != nil {
		t.Fatal(err)
	}
	b, err := fs.ReadFile(base, "glance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(b, []byte("\n---\n")) {
		var d appsv1.Deployment
		if err := yaml.Unmarshal(document, &d); err != nil {
			t.Fatal(err)
		}
		if d.Kind != "Deployment" {
			continue
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			if p := c.LivenessProbe; p == nil || p.TCPSocket == nil || p.HTTPGet != nil || p.Exec != nil {
				t.Errorf("container %s: liveness probe %+v, want one of the listener", c.Name, p)
			}
		}
		return
	}
	t.Error("glance.yaml has no Deployment")
}
