//go:build integration

package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/uuid"

	"regiond.dev/regiond/bootstrap/backup"
)

const backedUp = `apiVersion: regiond.dev/v1alpha1
kind: Region
metadata: {name: north-1}
spec:
  networks:
    provisioning: {cidr: 10.99.0.0/24, address: 10.99.0.1, dhcp: {range: 10.99.0.100-10.99.0.199}}
  controlPlane: {dataDir: DATA-DIR}
`

// backups of a region in a directory, of two times, with the file of the private key.
func backups(t *testing.T, region, dataDir string) (dir, key string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key, dir = write(t, "backup.key", id.String()+"\n"), filepath.Join(t.TempDir(), "backups")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "region.yaml", strings.ReplaceAll(backedUp, "DATA-DIR", dataDir))
	nothing := func(name string) backup.Source {
		return backup.File{As: name, Entry: name, Read: func(context.Context, io.Writer) error { return nil }}
	}
	for _, day := range []int{1, 2} {
		_, err := backup.Create(t.Context(), backup.CreateConfig{
			Manifest: backup.Manifest{Region: region, UID: uuid.MustParse("0a1b2c3d-0000-4000-8000-000000000001"), Host: strings.ToLower(name), Address: "10.99.0.1",
				Version: "v1", Time: time.Date(2026, 11, day, 3, 0, 0, 0, time.UTC), RegionFile: file},
			Sources: []backup.Source{backup.Folder{As: "openstack", Path: t.TempDir()}, backup.HostFiles{As: "host", Paths: []string{file}},
				backup.Folder{As: "pki", Path: t.TempDir()}, nothing("etcd"), nothing("journal.db")},
			Recipients: []age.Recipient{id.Recipient()}, Staging: filepath.Join(t.TempDir(), "s"), Store: backup.Directory(dir)})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir, key
}

// Backups are listed, verified, pruned and refused by the commands.
func TestBackupCommands(t *testing.T) {
	empty, live := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if err := os.WriteFile(filepath.Join(live, "region.json"), []byte(`{"region":"north-1","uid":"0a1b2c3d-0000-4000-8000-000000000001"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, key := backups(t, "north-1", empty)
	const newest = "north-1-0a1b2c3d-20261102T030000Z.tar.zst.age"
	file := filepath.Join(dir, newest)
	_, otherKey := backups(t, "north-1", empty)
	otherRegion, otherRegionKey := backups(t, "south-1", empty)
	overLive, overLiveKey := backups(t, "north-1", live)
	damaged := write(t, newest, "age-encryption.org/v1\nnot really")
	const failed, invalid, refused = 1, 3, 6
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{0, newest, []string{"list", "--destination", dir}},
		{0, `"name": "` + newest, []string{"list", "--destination", dir, "-o", "json"}},
		{0, "3 entries", []string{"verify", "latest", "--destination", dir, "--identity", key}},
		{0, "made at 2026-11-02T03:00:00Z", []string{"verify", file, "--identity", key}},
		{0, "1 of 2 backups", []string{"prune", "--destination", dir, "--keep-count", "1", "--dry-run"}},
		{invalid, "which backups are kept?", []string{"prune", "--destination", dir}},
		{invalid, "pass --yes", []string{"prune", "--destination", dir, "--keep-count", "1"}},
		{invalid, "--identity is missing", []string{"verify", file}},
		{invalid, "has no private key of age", []string{"verify", file, "--identity", file}},
		{invalid, "there is no backup nothing", []string{"verify", "nothing", "--destination", dir, "--identity", key}},
		{invalid, "no such file", []string{"verify", "./nothing", "--identity", key}},
		{refused, "encrypted to other keys", []string{"verify", file, "--identity", otherKey}},
		{refused, "the backup is damaged", []string{"verify", damaged, "--identity", key}},
		{refused, `backup is of region "south-1", region.yaml names "north-1"`, []string{"restore", "latest", "--destination", otherRegion, "--identity", otherRegionKey, "--yes"}},
		{refused, "it holds the region north-1", []string{"restore", "latest", "--destination", overLive, "--identity", overLiveKey, "--yes"}},
		{0, `"lostAfter": "2026-11-02T03:00:00Z"`, []string{"restore", file, "--identity", key, "-o", "json"}},
		{invalid, "pass --yes", []string{"restore", file, "--identity", key}},
		{invalid, "/region.yaml\n  lost ", []string{"restore", file, "--identity", key}}, // each file outside of the data directory is shown
		{failed, "", []string{"restore", file, "--identity", key, "--yes"}},              // an empty file is not a snapshot of etcd
	} {
		out, stderr, status := run(t, append([]string{"backup"}, c.args...)...)
		if status != c.status || !strings.Contains(out+stderr, c.want) {
			t.Errorf("backup %v: got status %d, %s%s; want %d and %q", c.args, status, out, stderr, c.status, c.want)
		}
	}
	// The restore that failed is known: regiond does not start there.
	if _, err := os.Stat(filepath.Join(empty, "restore.json")); err != nil {
		t.Errorf("after a restore that failed: %v, want its mark", err)
	}
	if out, stderr, status := run(t, "backup", "prune", "--destination", dir, "--keep-count", "1", "--yes"); status != 0 {
		t.Errorf("prune: status %d, %s%s", status, out, stderr)
	}
	out, _, _ := run(t, "backup", "list", "--destination", dir, "-o", "json")
	var left []backup.Stored
	if err := json.Unmarshal([]byte(out), &left); err != nil || len(left) != 1 || left[0].Name != newest {
		t.Errorf("after prune: got %+v, %v; want the newest", left, err)
	}
}
