package bmc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/bougou/go-ipmi/pkg/hal"
)

// console is the machine's serial console for SOL (section 15).
type console struct {
	machine Machine
	log     *slog.Logger
}

// Open attaches to the console. A machine without one, because it is off, gives a connection that is broken from the start:
// SOL stays active, as on real BMCs, and go-ipmi attaches again until there is one.
func (c *console) Open(ctx context.Context) (hal.ConsoleConn, error) {
	rwc, err := c.machine.Console(ctx)
	if err != nil {
		c.log.Debug("no console yet", slog.Any("error", err))
		return brokenConsole{err}, nil
	}
	a := &attachment{rwc: rwc}
	a.room = sync.NewCond(&a.mu)
	a.done.Go(a.pump)
	return a, nil
}

type brokenConsole struct{ err error }

func (b brokenConsole) ReadAvailable([]byte) (int, error) { return 0, b.err }
func (b brokenConsole) Write([]byte) (int, error)         { return 0, b.err }
func (b brokenConsole) SendBreak(context.Context) error   { return hal.ErrNotSupported }
func (b brokenConsole) Close() error                      { return nil }

// attachment makes a blocking console one that can be asked what is there now.
type attachment struct {
	rwc  io.ReadWriteCloser
	done sync.WaitGroup

	mu     sync.Mutex
	room   *sync.Cond
	buffer []byte
	err    error
	closed bool
}

// attachmentBuffer is how much is read ahead of a client that is slow.
const attachmentBuffer = 64 << 10

func (a *attachment) pump() {
	chunk := make([]byte, 4096)
	for {
		n, err := a.rwc.Read(chunk)
		a.mu.Lock()
		for len(a.buffer)+n > attachmentBuffer && !a.closed {
			a.room.Wait()
		}
		a.buffer = append(a.buffer, chunk[:n]...)
		if err != nil {
			a.err = err
		}
		stop := err != nil || a.closed
		a.mu.Unlock()
		if stop {
			return
		}
	}
}

// ReadAvailable gives what was read, and an error only when nothing is left.
func (a *attachment) ReadAvailable(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := copy(p, a.buffer)
	a.buffer = a.buffer[n:]
	a.room.Broadcast()
	if n == 0 && len(a.buffer) == 0 && len(p) > 0 {
		return 0, a.err
	}
	return n, nil
}

func (a *attachment) Write(p []byte) (int, error)     { return a.rwc.Write(p) }
func (a *attachment) SendBreak(context.Context) error { return hal.ErrNotSupported }

// Close detaches and waits for the reading to end.
func (a *attachment) Close() error {
	a.mu.Lock()
	again := a.closed
	a.closed = true
	a.room.Broadcast()
	a.mu.Unlock()
	if again {
		return nil
	}
	err := a.rwc.Close()
	a.done.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
