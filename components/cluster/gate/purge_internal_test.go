package gate

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// glanceSchema has Glance's tables as far as they refer to images (glance/db/sqlalchemy/models.py),
// with a row of each for every image in the first one.
const glanceSchema = `CREATE USER 'gate'@'127.0.0.1' IDENTIFIED BY 'secret';
GRANT ALL ON *.* TO 'gate'@'127.0.0.1';
CREATE DATABASE glance;
USE glance;
CREATE TABLE images (id VARCHAR(36) PRIMARY KEY, name VARCHAR(255), deleted BOOLEAN NOT NULL, visibility VARCHAR(16) NOT NULL);
CREATE TABLE image_locations (id INT AUTO_INCREMENT PRIMARY KEY, image_id VARCHAR(36) NOT NULL REFERENCES images (id));
CREATE TABLE image_properties (id INT AUTO_INCREMENT PRIMARY KEY, image_id VARCHAR(36) NOT NULL REFERENCES images (id));
CREATE TABLE image_tags (id INT AUTO_INCREMENT PRIMARY KEY, image_id VARCHAR(36) NOT NULL REFERENCES images (id));
CREATE TABLE image_members (id INT AUTO_INCREMENT PRIMARY KEY, image_id VARCHAR(36) NOT NULL REFERENCES images (id));
INSERT INTO images VALUES ('gone-1', 'MARK', 1, 'private'), ('gone-2', 'MARK', 1, 'private'), ('uploaded', 'MARK', 0, 'private'),
  ('shown', 'MARK', 1, 'public'), ('user', 'debian', 0, 'private'), ('user-gone', 'debian', 1, 'private'), ('other', 'MARK-2', 1, 'private');
INSERT INTO image_locations (image_id) SELECT id FROM images;
INSERT INTO image_properties (image_id) SELECT id FROM images;
INSERT INTO image_tags (image_id) SELECT id FROM images;
INSERT INTO image_members (image_id) SELECT id FROM images;
`

// Of a real database go the rows of images that the probe has deleted, from all tables, and no other.
func TestPurgeImages(t *testing.T) {
	target := Target{UID: "0a1b2c3d-0000-4000-8000-000000000001", Database: Login{User: "gate", Password: "secret"}}
	target.MariaDB = mariadb(t, strings.ReplaceAll(glanceSchema, "MARK", target.mark()))
	for range 2 { // it can be repeated
		if err := PurgeImages(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	db, err := target.open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := []string{"other", "shown", "uploaded", "user", "user-gone"}
	for _, of := range imageTables {
		rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s FROM glance.%s ORDER BY 1", of.key, of.table))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		if err := rows.Err(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got rows of %q, %v; want those of %q", of.table, got, err, want)
		}
	}
}

// mariadb starts this machine's MariaDB on a loopback port, which has executed the statements, and
// returns its address. It ends with the test.
func mariadb(t *testing.T, statements string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gate") // sockets have short paths, and the server's user gets there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("init.sql"), []byte(statements), 0o644); err != nil {
		t.Fatal(err)
	}
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // MariaDB refuses to run as root
		const nobody = 65534
		as.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "mariadb-install-db", "--no-defaults", "--datadir="+in("data"), "--skip-test-db", "--skip-name-resolve", "--force")
	install.SysProcAttr, install.Dir, install.Env = as, dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s; this test needs apt-get install mariadb-server-core mariadb-client", err, out)
	}
	address := freePort(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	server := exec.Command("/usr/sbin/mariadbd", "--no-defaults", "--datadir="+in("data"), "--socket="+in("socket"), "--pid-file="+in("pid"), "--tmpdir="+dir,
		"--bind-address=127.0.0.1", "--port="+port, "--init-file="+in("init.sql"), "--skip-log-bin", "--performance-schema=off", "--innodb-flush-log-at-trx-commit=0")
	server.SysProcAttr, server.Dir, server.Stderr = as, dir, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have ended
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for { // it listens when the statements have been executed
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("MariaDB ended: %v: %s", err, said.String())
		case <-ctx.Done():
			t.Fatalf("MariaDB does not listen on %s: %v", address, err)
		case <-tick.C:
		}
	}
}

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
