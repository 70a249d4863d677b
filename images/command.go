package images

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// tailSize is how many bytes of a program's last words go into an error.
const tailSize = 2048

// stopGrace is how long a program may take to clean up after SIGTERM: mmdebstrap unmounts.
const stopGrace = 20 * time.Second

// command is a program to run.
type command struct {
	name string
	args []string
	dir  string
	env  []string
	// lines is called with every line that the program prints. May be nil.
	lines func(string)
}

// run runs the program in its own mount namespace, so that nothing it mounts (mmdebstrap: /proc,
// /sys, /dev) is ever seen or left behind in the host's, whatever becomes of it: deleting its
// folder is then safe.
func (c command) run(ctx context.Context) error {
	path, ok := find(c.name, fileExists)
	if !ok {
		return fmt.Errorf("run %s: not found in %s", c.name, strings.Join(searchPath, ":"))
	}
	output := &lineWriter{each: c.lines}
	cmd := exec.CommandContext(ctx, path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(append(cmd.Environ(), "LC_ALL=C", "PATH="+strings.Join(searchPath, ":")), c.env...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("run %s: %w", c.name, context.Cause(ctx))
		}
		return fmt.Errorf("run %s: %w; its last words: %s", c.name, err, output.last())
	}
	return nil
}

// lineWriter passes lines on and remembers the last ones.
type lineWriter struct {
	each func(string)
	part []byte
	tail []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.tail = append(w.tail, p...)
	if extra := len(w.tail) - tailSize; extra > 0 {
		w.tail = w.tail[extra:]
	}
	w.part = append(w.part, p...)
	for {
		at := bytes.IndexAny(w.part, "\n\r")
		if at < 0 {
			return len(p), nil
		}
		if line := strings.TrimSpace(string(w.part[:at])); line != "" && w.each != nil {
			w.each(line)
		}
		w.part = w.part[at+1:]
	}
}

func (w *lineWriter) last() string { return strings.TrimSpace(string(w.tail)) }
