package kustomize_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/components/kustomize"
)

// database plays the client mariadb: it notes the statements that it is given, and says which
// connection holds the lock of a schema.
const database = `#!/bin/bash
case "$*" in
*IS_USED_LOCK*) cat "$PLAY/owner" ;;
*COUNT*) echo 0; echo "$*" >> "$PLAY/statements" ;;
*) echo "$*" >> "$PLAY/statements" ;;
esac
`

// A schema is changed, and called complete, only while this job's connection holds the lock of the
// schema: another job may have taken it since.
func TestSchemaIsChangedUnderItsLock(t *testing.T) {
	base, err := kustomize.Base()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		script, lock, owner, plan string
		want                      string // among the statements; empty: the script fails and changes nothing
	}{
		{"schema-prepare", "7", "7", "", "CREATE DATABASE glance"},
		{"schema-prepare", "7", "8", "", ""},
		{"schema-prepare", "7", "NULL", "", ""},
		{"schema-prepare", "", "NULL", "", ""},
		{"schema-complete", "7", "7", "create", "SET state = 'complete'"},
		{"schema-complete", "7", "8", "create", ""},
		{"schema-complete", "7", "NULL", "upgrade", ""},
		{"schema-lock", "7", "7", "", ""}, // its connection has ended, and with it the lock
	} {
		name := tc.script + ", lock " + tc.lock + ", held by " + tc.owner
		dir := t.TempDir()
		text, err := fs.ReadFile(base, "scripts/"+tc.script)
		if err != nil {
			t.Fatal(err)
		}
		script := strings.NewReplacer("/work/", dir+"/", "/etc/regiond/schema/", dir+"/").Replace(string(text))
		for file, content := range map[string]string{"mariadb": database, "script": script, "owner": tc.owner, "lock": tc.lock, "plan": tc.plan,
			"version": "2:30.0.0", "statements": "", "glance.sql": ""} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.CommandContext(t.Context(), filepath.Join(dir, "script"), "glance", "glance")
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PLAY="+dir)
		out, err := c.CombinedOutput()
		b, errRead := os.ReadFile(filepath.Join(dir, "statements"))
		if errRead != nil {
			t.Fatal(errRead)
		}
		statements := strings.ReplaceAll(string(b), "SELECT 1", "") // asks whether there is a database
		if tc.want != "" && (err != nil || !strings.Contains(statements, tc.want)) {
			t.Errorf("%s: %v, statements\n%s%s\nwant %q", name, err, b, out, tc.want)
		}
		if tc.want == "" && (err == nil || strings.Contains(statements, "schema_state") || strings.Contains(statements, "DATABASE") ||
			!strings.Contains(string(out), "lock of the schema of glance")) {
			t.Errorf("%s: %v, statements\n%s%s\nwant a failure that names the lock, and nothing changed", name, err, b, out)
		}
	}
}
