package debian

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// tailSize is how many bytes of a program's last output go into an error.
const tailSize = 2048

// stopGrace is how long a program has to clean up after SIGTERM: mmdebstrap unmounts its file
// systems.
const stopGrace = 20 * time.Second

// Command is a program to run.
type Command struct {
	Name string
	Args []string
	Dir  string
	// Env is appended to this process's environment.
	Env []string
	// Lines is called with every line that the program prints. May be nil.
	Lines func(string)
	// Stdout receives the program's standard output instead of Lines. May be nil.
	Stdout io.Writer
}

// Run runs the program in its own mount and PID namespaces, so that its mounts (mmdebstrap: /proc,
// /sys, /dev) never appear in the host's namespace or stay behind in it, and no child outlives it.
// It is killed when this process is. Deleting its folder is therefore safe however either of them
// ended.
func (c Command) Run(ctx context.Context) error {
	path, ok := Find(c.Name, FileExists)
	if !ok {
		return fmt.Errorf("run %s: not found in %s", c.Name, strings.Join(searchPath, ":"))
	}
	output := &lineWriter{each: c.Lines}
	cmd := exec.CommandContext(ctx, path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(cmd.Environ(), "LC_ALL=C", "PATH="+strings.Join(searchPath, ":")), c.Env...)
	cmd.Stdout, cmd.Stderr = output, output
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	// The first process of a PID namespace receives only signals that it handles; WaitDelay is for
	// programs that don't handle SIGTERM.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("run %s: %w", c.Name, context.Cause(ctx))
		}
		return fmt.Errorf("run %s: %w; last output: %s", c.Name, err, output.last())
	}
	return nil
}

// lineWriter passes lines on and retains the last tailSize bytes.
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

// Quote quotes a string for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
