package debian

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRunSaysWhy(t *testing.T) {
	err := Command{Name: "sh", Args: []string{"-c", "echo no such luck >&2; exit 3"}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got error %v, want one with the program's output", err)
	}
	if err := (Command{Name: "no-such-program"}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("got error %v, want one that names the missing program", err)
	}
}

func TestRunLeavesNoMounts(t *testing.T) {
	dir := t.TempDir()
	if err := (Command{Name: "sh", Args: []string{"-c", "mount -t tmpfs none " + dir + " && touch " + dir + "/x"}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if FileExists(filepath.Join(dir, "x")) {
		t.Error("the mount is visible outside the program's namespace")
	}
}

func TestLineWriter(t *testing.T) {
	var lines []string
	w := &lineWriter{each: func(l string) { lines = append(lines, l) }}
	for _, part := range []string{"I: a", "b\n", "\n  c\rd\n", "no end"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: got %d, %v", n, err)
		}
	}
	if want := []string{"I: ab", "c", "d"}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if _, err := w.Write([]byte(strings.Repeat("x", 2*tailSize))); err != nil || len(w.last()) != tailSize {
		t.Errorf("%d bytes are remembered (%v), want %d", len(w.last()), err, tailSize)
	}
}

// helperEnv makes this test's binary the process that is killed.
const helperEnv = "REGIOND_TEST_COMMAND_HELPER"

func TestMain(m *testing.M) {
	if fifo := os.Getenv(helperEnv); fifo != "" {
		// The shell's child survives its parent unless it is killed too.
		err := Command{Name: "sh", Args: []string{"-c", "(exec 3>" + Quote(fifo) + "; sleep 1000) & wait"}}.Run(context.Background())
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// When a builder is killed, so is everything it started: the next build deletes its folder.
func TestNothingOutlivesKill(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperEnv+"="+fifo)
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fifo) // blocks until the grandchild has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := f.Read(make([]byte, 1)) // returns when no process has it open
		ended <- err
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("a descendant of the killed process is still running")
	}
	_ = helper.Wait() // it was killed
}
