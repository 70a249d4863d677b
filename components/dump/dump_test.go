package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/components/openstack"
)

// of reads a dump.
func of(t *testing.T, text string) (Summary, error) {
	t.Helper()
	r := newReader()
	// In small parts, as it comes from a pipe.
	for part := range slices.Chunk([]byte(text), 7) {
		if _, err := r.Write(part); err != nil {
			return nil, err
		}
	}
	return r.result()
}

func golden(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("testdata/dump.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSummary(t *testing.T) {
	text := golden(t)
	got, err := of(t, text)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int64{}
	for name, table := range got {
		rows[name] = table.Rows
	}
	want := map[string]int64{"keystone.empty1": 0, "keystone.nopk": 2, "keystone.t": 3}
	if !maps.Equal(rows, want) {
		t.Errorf("got rows %v, want %v", rows, want)
	}
	if got.Rows() != 5 {
		t.Errorf("got %d rows in all, want 5", got.Rows())
	}
	for _, c := range []struct{ old, new, want string }{
		// The counter may be set forth by a server, the definition not.
		{"AUTO_INCREMENT=4", "AUTO_INCREMENT=9", ""},
		{"`a` text", "`a` longtext", "table keystone.t has another definition"},
		{"(2,'it\\'s (',NULL,NULL),\n", "", "table keystone.t has 2 rows, the backup 3"},
		{"`nopk`", "`renamed`", "table keystone.nopk is missing; table keystone.renamed is not in the backup"},
	} {
		changed := strings.ReplaceAll(text, c.old, c.new)
		if changed == text {
			t.Fatalf("%q is not in the dump", c.old)
		}
		other, err := of(t, changed)
		if d := strings.Join(got.Differences(other), "; "); err != nil || d != c.want {
			t.Errorf("%q for %q: got differences %q, %v; want %q", c.new, c.old, d, err, c.want)
		}
	}
}

// Dumps that are cut off, or have statements of another form, are not taken for less rows.
func TestDumpsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"-- Dump completed\n", "", "the dump was cut off"},
		{"INSERT INTO `nopk` VALUES\n('a'),", "INSERT INTO `nopk` VALUES ('a'),", "keystone.nopk: a statement that this regiond does not know"},
		{"CREATE TABLE `nopk` (", "CREATE TABLE IF NOT EXISTS `nopk` (", "keystone.nopk: a statement that this regiond does not know"},
	} {
		changed := strings.Replace(golden(t), c.old, c.new, 1)
		if _, err := of(t, changed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: got %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

// scratch is a server of this machine's MariaDB, with databases like OpenStack's.
func scratch(t *testing.T) *server {
	t.Helper()
	s := &server{root: "/", dir: filepath.Join(folder(t), "old"), user: nobody, superuser: "nobody"}
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("%v; this test needs apt-get install mariadb-server-core mariadb-client", err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	statements, err := os.ReadFile("testdata/databases.sql")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.load(t.Context(), bytes.NewReader(statements)); err != nil {
		t.Fatal(err)
	}
	return s
}

// folder that the server's user gets to.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dump")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// source of a data directory whose cluster lab has its databases on a server.
func source(t *testing.T, s *server) *Source {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{"lab/mariadb/data/ibdata1": "live", "lab/glance/images/one": "image",
		"lab/glance/staging/x": "half", "old/mariadb/data/keystone/t.ibd": "kept", "old/glance/images/two": "image 2", "new/dumps/x": ""} {
		path = filepath.Join(openstack.DataDir(dir, ""), path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return &Source{DataDir: dir, Clusters: []string{"lab", "new"}, exec: func(ctx context.Context, cluster, script string, stdout io.Writer) error {
		c := s.command(ctx, "/bin/bash", "-c", strings.ReplaceAll(script, "/run/mysqld/mysqld.sock", s.socket()))
		said := &tail{}
		c.Stdout, c.Stderr = stdout, said
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w: %s", cluster, err, said)
		}
		return nil
	}}
}

// entries that a source hands in.
func entries(t *testing.T, s *Source) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := s.Backup(t.Context(), func(name string, content io.Reader) error {
		b, err := io.ReadAll(content)
		got[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func restorer(t *testing.T) *Restorer {
	t.Helper()
	r := NewRestorer(folder(t), nil)
	r.host = true
	return r
}

func restore(t *testing.T, r *Restorer, all map[string]string) error {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := r.Restore(t.Context(), name, strings.NewReader(all[name])); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return r.Finish(t.Context())
}

// Databases of a dump have the same tables, rows, users and rights; a dump taken of them is the same.
func TestDumpAndRestore(t *testing.T) {
	live := scratch(t)
	all := entries(t, source(t, live))
	want := []string{"lab/glance/images/one", "lab/mariadb.json", "lab/mariadb.sql", "old/data/glance/images/two", "old/data/mariadb/data/keystone/t.ibd"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Fatalf("got entries %q, want %q", got, want)
	}
	r := restorer(t)
	if err := restore(t, r, all); err != nil {
		t.Fatal(err)
	}
	if got := r.Restored()["lab"]["keystone.t"].Rows; got != 3 {
		t.Errorf("keystone.t has %d rows, want 3", got)
	}
	for path, want := range map[string]string{"lab/glance/images/one": "image", "old/mariadb/data/keystone/t.ibd": "kept"} {
		b, err := os.ReadFile(filepath.Join(openstack.DataDir(r.DataDir, ""), path))
		if err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v; want %q", path, b, err, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(r.DataDir, "openstack", "*", "restore")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// The restored folder is a server's data: start one on it.
	again := &server{root: "/", dir: filepath.Join(openstack.DataDir(r.DataDir, "lab"), "mariadb"), user: nobody, superuser: "nobody"}
	if err := again.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, query := range []string{"SELECT * FROM keystone.t ORDER BY id", "SHOW GRANTS FOR 'keystone'@'%'", "SHOW GRANTS FOR 'regiond'@'%'",
		"SELECT authentication_string FROM mysql.user WHERE user IN ('keystone', 'regiond')", "SHOW CREATE DATABASE glance"} {
		var answers []string
		for _, s := range []*server{live, again} {
			out, err := s.client(t.Context(), "mariadb", "--batch", "--execute", query).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v: %s", query, err, out)
			}
			answers = append(answers, string(out))
		}
		if answers[0] != answers[1] || !strings.Contains(answers[0], "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", query, answers[1], answers[0])
		}
	}
}

// A dump that lost rows on its way, with sound checksums, is found out by what is read back.
func TestRestoredDatabasesAreCompared(t *testing.T) {
	all := entries(t, source(t, scratch(t)))
	good := all["lab/mariadb.sql"]
	all["lab/mariadb.sql"] = strings.Replace(good, "('a'),\n", "", 1)
	if all["lab/mariadb.sql"] == good {
		t.Fatal("the row is not in the dump")
	}
	r := restorer(t)
	r.DatabasesOnly = true
	if err := restore(t, r, all); err == nil || !strings.Contains(err.Error(), "table keystone.nopk has 1 rows, the backup 2") {
		t.Errorf("got %v, want that a row is missing", err)
	}
	all["lab/mariadb.sql"] = "this is not SQL;\n"
	if err := restore(t, restorer(t), all); err == nil || !strings.Contains(err.Error(), "load the dump") {
		t.Errorf("got %v, want that it can't be loaded", err)
	}
	if err := restore(t, restorer(t), map[string]string{"lab/mongo.bson": "x"}); err == nil {
		t.Error("an unknown entry was restored")
	}
}

// A database that can't be dumped fails the backup: one without it must not be taken for good.
func TestDatabaseThatIsDown(t *testing.T) {
	s := source(t, scratch(t))
	down := errors.New("pod mariadb-0 is not running")
	s.exec = func(_ context.Context, _, _ string, stdout io.Writer) error {
		_, err := io.WriteString(stdout, "-- half of it\n")
		return errors.Join(err, down)
	}
	err := s.Backup(t.Context(), func(_ string, content io.Reader) error { _, err := io.ReadAll(content); return err })
	if !errors.Is(err, down) || !strings.Contains(err.Error(), "OpenStack cluster lab") {
		t.Errorf("got %v, want that cluster lab can't be dumped", err)
	}
}
