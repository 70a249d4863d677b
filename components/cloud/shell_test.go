package cloud_test

import (
	"os/exec"
	"testing"

	"regiond.dev/regiond/components/cloud"
)

// A shell that sources the script gets the password unchanged, whatever characters it has.
func TestShell(t *testing.T) {
	password := `a'b "c" $HOME \ `
	script := cloud.Credentials{URL: "http://10.20.0.2:5000", User: "admin", Password: password, Project: "admin"}.Shell()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script+`printf '%s %s' "$OS_AUTH_URL" "$OS_PASSWORD"`).Output()
	if want := "http://10.20.0.2:5000/v3 " + password; err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
