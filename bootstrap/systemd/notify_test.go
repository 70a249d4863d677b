package systemd_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

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

// The watchdog is answered as long as the service does what it is for, until it is told to end.
func TestKeepAlive(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	notified := make(chan string, 100)
	checked := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		systemd.KeepAlive(ctx, 3*time.Millisecond, func(context.Context) error {
			checked++
			switch {
			case checked <= 2:
				return nil
			case checked == 5:
				stop()
			}
			return errors.New("it does not answer")
		}, func(message string) { notified <- message })
	}()
	<-ended
	if got := len(notified); got != 2 || <-notified != systemd.Watchdog {
		t.Errorf("got %d messages, want 2 of the watchdog: the service answered twice", got)
	}
	systemd.KeepAlive(t.Context(), 0, nil, nil) // without a watchdog it returns
}
