package systemd

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Notifier notifies the service manager about this service (sd_notify(3)). The zero value, without
// a socket, does nothing.
type Notifier struct {
	// Socket from $NOTIFY_SOCKET. The caller removes the variable from the environment, so that
	// components, some of which speak the same protocol, do not notify for regiond.
	Socket string
}

// Messages of the protocol.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// Status returns a message for systemctl status to show.
func Status(text string) string { return "STATUS=" + text }

// Notify sends one message.
func (n Notifier) Notify(message string) error {
	if n.Socket == "" {
		return nil
	}
	// A name that begins with "@" is in the abstract namespace, as package net treats it.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.Socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	_, err = c.Write([]byte(message))
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return err
}

// KeepAlive answers the service manager's watchdog, which expects a message every interval, until
// ctx ends, as long as alive returns nil. Without a watchdog, interval 0, it returns at once.
func KeepAlive(ctx context.Context, interval time.Duration, alive func(context.Context) error, notify func(message string)) {
	if interval == 0 {
		return
	}
	t := time.NewTicker(interval / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if alive(ctx) == nil {
				notify(Watchdog)
			}
		}
	}
}
