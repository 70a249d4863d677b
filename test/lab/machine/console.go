package machine

import (
	"io"
	"net"
	"sync"
)

// backlog is how many chunks of output a slow reader may be behind before output is dropped for it.
const backlog = 256

// Console shares a machine's serial line among any number of readers and writers. It outlives
// power cycles: readers stay, the line behind them changes.
type Console struct {
	mu      sync.Mutex
	line    net.Conn // nil while the machine is off
	readers map[*terminal]struct{}
}

func newConsole() *Console { return &Console{readers: map[*terminal]struct{}{}} }

// attach copies from a new line until it ends.
func (c *Console) attach(line net.Conn) {
	c.mu.Lock()
	c.line = line
	c.mu.Unlock()
	go func() {
		defer line.Close()
		for {
			buf := make([]byte, 4096)
			n, err := line.Read(buf)
			c.mu.Lock()
			for t := range c.readers {
				select {
				case t.output <- buf[:n]:
				default: // QEMU's own log has all of it
				}
			}
			if err != nil {
				if c.line == line {
					c.line = nil
				}
				c.mu.Unlock()
				return
			}
			c.mu.Unlock()
		}
	}()
}

func (c *Console) open() *terminal {
	t := &terminal{console: c, output: make(chan []byte, backlog), closed: make(chan struct{})}
	c.mu.Lock()
	c.readers[t] = struct{}{}
	c.mu.Unlock()
	return t
}

// terminal is one reader and writer of a Console.
type terminal struct {
	console *Console
	output  chan []byte
	rest    []byte
	once    sync.Once
	closed  chan struct{}
}

// Read blocks for output and returns io.EOF after Close.
func (t *terminal) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		select {
		case t.rest = <-t.output:
		case <-t.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write types on the serial line; while the machine is off what is typed goes nowhere.
func (t *terminal) Write(p []byte) (int, error) {
	t.console.mu.Lock()
	line := t.console.line
	t.console.mu.Unlock()
	if line == nil {
		return len(p), nil
	}
	return line.Write(p)
}

// Close ends pending reads.
func (t *terminal) Close() error {
	t.once.Do(func() {
		t.console.mu.Lock()
		delete(t.console.readers, t)
		t.console.mu.Unlock()
		close(t.closed)
	})
	return nil
}
