package check_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"regiond.dev/regiond/region/check"
)

func TestWriteProblems(t *testing.T) {
	_, err := check.Load([]byte(edit(t, "        range: 10.20", "        rnge: 10.20", "node: trixie", "node: trixi")), "region.yaml")
	var problems check.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error is %T: %v", err, err)
	}
	var text, asJSON bytes.Buffer
	if err := errors.Join(problems.WriteText(&text), problems.WriteJSON(&asJSON, "region.yaml")); err != nil {
		t.Fatal(err)
	}
	wantText := `region.yaml:12:9: spec.networks.provisioning.dhcp.rnge: unknown field; did you mean "range"?
region.yaml:65:11: spec.images.node: "trixi" is not supported; did you mean "trixie"?
`
	wantJSON := `{
  "file": "region.yaml",
  "valid": false,
  "problems": [
    {
      "file": "region.yaml",
      "line": 12,
      "column": 9,
      "field": "spec.networks.provisioning.dhcp.rnge",
      "value": "rnge",
      "message": "unknown field",
      "suggestion": "did you mean \"range\"?"
    },
    {
      "file": "region.yaml",
      "line": 65,
      "column": 11,
      "field": "spec.images.node",
      "value": "trixi",
      "message": "\"trixi\" is not supported",
      "suggestion": "did you mean \"trixie\"?"
    }
  ]
}
`
	if diff := cmp.Diff(wantText, text.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantJSON, asJSON.String()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if got := problems.Summary("region.yaml"); got != "region.yaml: 2 problems" {
		t.Errorf("summary %q", got)
	}
}

func TestWriteNoProblems(t *testing.T) {
	var none check.Problems
	var text, asJSON bytes.Buffer
	if err := errors.Join(none.WriteText(&text), none.WriteJSON(&asJSON, "-")); err != nil {
		t.Fatal(err)
	}
	if text.Len() > 0 || !strings.Contains(asJSON.String(), `"problems": []`) || none.Err() != nil {
		t.Errorf("text %q, JSON %q, error %v", text.String(), asJSON.String(), none.Err())
	}
}

// TestLongValue: a value of any length makes one line that can be read.
func TestLongValue(t *testing.T) {
	got := report(t, edit(t, "address: 10.30.0.61", "address: \""+strings.Repeat("x\\n", 5000)+"\""))
	if len(got) != 1 || len(got[0]) > 400 || strings.Contains(got[0], "\n") {
		t.Errorf("report has %d problems, the first with %d bytes", len(got), len(got[0]))
	}
}

func TestCheckSecretFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	good, open, missing := file("good", 0o600), file("open", 0o644), filepath.Join(dir, "missing")
	text := edit(t, "        file: /etc/regiond/rack-1.yaml\n", "        file: "+good+
		"\n      - {name: open, file: "+open+"}\n      - {name: missing, file: "+missing+"}\n      - {name: dir, file: "+dir+"}\n      - {name: relative, file: secrets}\n",
		"node: trixie", "node: trixi")
	doc, err := check.Load([]byte(text), "region.yaml")
	var problems check.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error is %T: %v", err, err)
	}
	got := problems.Merge(doc.CheckSecretFiles(os.Stat)).Error()
	got = strings.ReplaceAll(got, dir, "/DIR")
	want := `region.yaml:24:28: spec.hardware.credentials[1].file: "/DIR/open" may be read or written by others (mode 0644); run chmod 600 /DIR/open
region.yaml:25:31: spec.hardware.credentials[2].file: "/DIR/missing" does not exist; create it, readable by root only (chmod 600), with the lines 'username: …' and 'password: …'
region.yaml:26:27: spec.hardware.credentials[3].file: "/DIR" is not a file (drwxr-xr-x); give a file with the lines 'username: …' and 'password: …'
region.yaml:27:32: spec.hardware.credentials[4].file: "secrets" is not an absolute path; begin it with '/'; it is a path on the seed host
region.yaml:69:11: spec.images.node: "trixi" is not supported; did you mean "trixie"?`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
