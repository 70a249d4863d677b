package datadir_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"regiond.dev/regiond/bootstrap/datadir"
)

// TestLockHolder is another process that holds a data directory; see holdLock.
func TestLockHolder(t *testing.T) {
	dir := os.Getenv("DATADIR_LOCK")
	if dir == "" {
		return
	}
	l, err := datadir.TakeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("holding")
	if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
		t.Fatal("unexpected input")
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// holdLock starts a process that holds a data directory until its SIGTERM or the end of the test.
func holdLock(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestLockHolder$")
	c.Env = append(os.Environ(), "DATADIR_LOCK="+dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // the test may have ended it
		_ = c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holding\n" {
		t.Fatalf("holder: %q, %v", line, err)
	}
	return c
}

func TestSecondRegiondOnTheSameDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	if pid, err := datadir.LockOwner(dir); pid != 0 || err != nil {
		t.Fatalf("before: got owner %d, %v; want none", pid, err)
	}
	holder := holdLock(t, dir)
	if pid, err := datadir.LockOwner(dir); pid != holder.Process.Pid || err != nil {
		t.Errorf("owner %d, %v; want %d", pid, err, holder.Process.Pid)
	}
	_, err := datadir.TakeLock(dir)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("already running on %s, pid %d", dir, holder.Process.Pid)) {
		t.Errorf("got %v, want an error that names the holder", err)
	}
	// After a kill the kernel releases the lock, whatever the file contains.
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // "signal: killed"
	l, err := datadir.TakeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if pid, err := datadir.LockOwner(dir); pid != 0 || err != nil {
		t.Errorf("after: got owner %d, %v; want none", pid, err)
	}
}
