//go:build integration

package cli

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A region's addresses are reached directly, whatever proxy the caller's environment names: no
// proxy reaches them.
func TestTheRegionIsReachedWithoutProxy(t *testing.T) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = c.Close() // who asked is told nothing
		}
	}()
	dir := dataDir(t, "192.0.2.1:6443") // an address for documentation (RFC 5737), which nothing answers
	for _, args := range [][]string{
		{"kubectl", "--data-dir", dir, "get", "nodes", "--request-timeout=1s"},
		{"status", "--data-dir", dir},
	} {
		c := exec.CommandContext(t.Context(), *regiond, args...)
		url := "http://" + proxy.Addr().String()
		c.Env = append(os.Environ(), "HTTPS_PROXY="+url, "https_proxy="+url, "HTTP_PROXY="+url, "ALL_PROXY="+url, "NO_PROXY=", "no_proxy=")
		out, err := c.CombinedOutput()
		if err == nil {
			t.Errorf("regiond %v succeeded without a region: %s", args, out)
		}
		if n := asked.Swap(0); n > 0 {
			t.Errorf("regiond %v connected to the proxy %d times", args, n)
		}
	}
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// dataDir is that of a region whose API server is at an address.
func dataDir(t *testing.T, api string) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := `apiVersion: v1
kind: Config
clusters: [{name: r, cluster: {server: "https://` + api + `"}}]
users: [{name: r, user: {token: x}}]
contexts: [{name: r, context: {cluster: r, user: r}}]
current-context: r
`
	if err := os.WriteFile(filepath.Join(dir, "admin.kubeconfig"), []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
