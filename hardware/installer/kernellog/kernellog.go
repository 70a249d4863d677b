// Package kernellog logs to the kernel's log (kmsg), from which it reaches all consoles and the journal
// of the installed system.
package kernellog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxLine is what the kernel takes as one message, with room for its own prefix (LOG_LINE_MAX).
const maxLine = 900

// Open makes /dev/console the standard streams (Go prints panics there) and returns a logger
// that writes to the kernel's log: it goes to all consoles, not only to the last one of the command
// line, and is still there for the journal of the installed system.
func Open() *slog.Logger {
	if console, err := os.OpenFile("/dev/console", os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			// Without a console there is nobody to tell.
			_ = unix.Dup3(int(console.Fd()), fd, 0)
		}
	}
	var out io.Writer = os.Stdout
	// The kernel drops messages of chatty programs by default. (It wants the line feed.)
	if err := os.WriteFile("/proc/sys/kernel/printk_devkmsg", []byte("on\n"), 0); err != nil {
		fmt.Fprintf(out, "regiond-init: %v\n", err)
	}
	if kmsg, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
		out = kmsg
	} else {
		fmt.Fprintf(out, "regiond-init: %v\n", err)
	}
	return slog.New(newHandler(out))
}

// handler writes one line per record with the priority in front, as the kernel's log wants
// it.
type handler struct {
	shared *output
	text   slog.Handler
}

type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	out    io.Writer
}

func newHandler(out io.Writer) *handler {
	shared := &output{out: out}
	return &handler{shared: shared, text: slog.NewTextHandler(&shared.buffer, &slog.HandlerOptions{
		// The kernel adds its own time, and the level is the priority.
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		},
	})}
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{shared: h.shared, text: h.text.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{shared: h.shared, text: h.text.WithGroup(name)}
}

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.buffer.Reset()
	if err := h.text.Handle(ctx, record); err != nil {
		return err
	}
	line := bytes.TrimRight(h.shared.buffer.Bytes(), "\n")
	for first := true; first || len(line) > 0; first = false {
		n := min(len(line), maxLine)
		// One write is one message of the kernel's log.
		if _, err := fmt.Fprintf(h.shared.out, "<%d>regiond-init: %s\n", priority(record.Level), line[:n]); err != nil {
			return err
		}
		line = line[n:]
	}
	return nil
}

// priority of syslog(2): error, warning, info.
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	default:
		return 6
	}
}
