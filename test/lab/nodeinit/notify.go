package nodeinit

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// notification is where a service of Type=notify says that it is ready (sd_notify(3)). Each has a socket of its own, so that who
// speaks need not be found out.
type notification struct {
	path  string
	conn  *net.UnixConn
	ready chan struct{}
}

func listen(path string) (*notification, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	// The service may have another user.
	if err := os.Chmod(path, 0o666); err != nil {
		conn.Close()
		return nil, err
	}
	n := &notification{path: path, conn: conn, ready: make(chan struct{})}
	go n.read()
	return n, nil
}

func (n *notification) read() {
	ready := sync.OnceFunc(func() { close(n.ready) })
	buffer := make([]byte, 4096)
	for {
		size, _, err := n.conn.ReadFromUnix(buffer)
		if err != nil {
			return // closed
		}
		if slices.Contains(strings.Split(string(buffer[:size]), "\n"), "READY=1") {
			ready()
		}
	}
}

func (n *notification) close() {
	if n != nil {
		n.conn.Close()
	}
}
