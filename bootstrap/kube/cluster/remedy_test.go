package cluster

import (
	"strings"
	"testing"
)

func TestRemedies(t *testing.T) {
	for _, c := range []struct{ component, cause, want string }{
		{"etcd", "failed to save Raft hard state and entries: write /d/etcd/member/wal/0.wal: no space left on device", "free space on the file system of /d "},
		{"containerd", "panic: assertion failed: Page expected to be: 3, but self identifies as 123", "move /d/containerd/root away"},
		{"etcd", "panic: freepages: failed to get all reachable pages", "restore it from a backup"},
		{"etcd", "failed to recover v3 backend from snapshot: invalid database", "restore it from a backup"},
		{"kube-proxy", "panic: nil map", ""},
		{"etcd", "listen tcp 127.0.0.1:2379: bind: address already in use", ""},
	} {
		got := remedy(c.component, c.cause, "/d")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s, %q: got %q, want it to contain %q", c.component, c.cause, got, c.want)
		}
	}
}
