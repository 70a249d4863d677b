package systemd_test

import (
	"net"
	"path/filepath"
	"testing"

	"regiond.dev/regiond/bootstrap/systemd"
)

func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := systemd.Notifier{Socket: path}
	for _, want := range []string{systemd.Ready, systemd.Status("waiting for etcd")} {
		if err := n.Notify(want); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 256)
		size, err := l.Read(b)
		if err != nil || string(b[:size]) != want {
			t.Errorf("got %q, %v", b[:size], err)
		}
	}
	if err := (systemd.Notifier{}).Notify(systemd.Ready); err != nil {
		t.Errorf("without systemd: %v", err)
	}
}
