package etcd_test

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"regiond.dev/regiond/bootstrap/backup/etcd"
	"regiond.dev/regiond/bootstrap/datadir"
)

const peer = "https://10.255.0.1:2380"

// start a member on the loopback address with what is in the data directory.
func start(t *testing.T, dataDir string) (*clientv3.Client, string, func()) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.Name, c.LogLevel = datadir.Etcd.In(dataDir), "seed", "error"
	c.LogOutputs = []string{filepath.Join(t.TempDir(), "etcd.log")}
	free := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{free}, []url.URL{free}
	advertised, err := url.Parse(peer)
	if err != nil {
		t.Fatal(err)
	}
	c.AdvertisePeerUrls, c.InitialCluster = []url.URL{*advertised}, "seed="+peer
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready within a minute")
	}
	at := "http://" + e.Clients[0].Addr().String()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return client, at, func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		e.Close()
	}
}

func put(t *testing.T, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	r, err := c.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	r, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

// What was written before the snapshot is there again, what came later is not, and who remembers a
// later revision is told that it is gone.
func TestSaveAndRestore(t *testing.T) {
	old, restored := t.TempDir(), t.TempDir()
	client, at, stop := start(t, old)
	put(t, client, "kept", "1")
	var saved bytes.Buffer
	if err := etcd.Save(t.Context(), etcd.Member{URL: at}, &saved); err != nil {
		t.Fatal(err)
	}
	put(t, client, "kept", "2")
	last := put(t, client, "lost", "1")
	stop()

	if err := etcd.Restore(t.Context(), restored, "seed", peer, bytes.NewReader(saved.Bytes())); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(datadir.Etcd.In(restored))
	if err != nil || len(left) != 1 || left[0].Name() != "member" {
		t.Errorf("in the folder of etcd: %v, %v; want member alone", left, err)
	}
	client, _, stop = start(t, restored)
	defer stop()
	if kept, lost := get(t, client, "kept"), get(t, client, "lost"); kept != "1" || lost != "" {
		t.Errorf("got kept=%q lost=%q, want the state of the snapshot", kept, lost)
	}
	if now := put(t, client, "new", "1"); now <= last {
		t.Errorf("got revision %d after the restore, want one beyond %d: watchers remember that", now, last)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if w := <-client.Watch(ctx, "kept", clientv3.WithRev(last)); w.CompactRevision == 0 {
		t.Errorf("a watch from revision %d got %+v, want that it was compacted", last, w)
	}
}

func TestDamagedSnapshot(t *testing.T) {
	client, at, stop := start(t, t.TempDir())
	defer stop()
	put(t, client, "a", strings.Repeat("x", 1000))
	var saved bytes.Buffer
	if err := etcd.Save(t.Context(), etcd.Member{URL: at}, &saved); err != nil {
		t.Fatal(err)
	}
	bad := saved.Bytes()
	bad[len(bad)/2] ^= 1
	if err := etcd.Restore(t.Context(), t.TempDir(), "seed", peer, bytes.NewReader(bad)); err == nil {
		t.Error("a damaged snapshot was restored")
	}
}

func TestSaveOfNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := etcd.Save(ctx, etcd.Member{URL: "http://127.0.0.1:1"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want an error that names the address", err)
	}
}
