// Package namespace makes the network namespaces of a lab and finds the processes in them.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// dir holds the names of network namespaces, as ip-netns(8) keeps them.
const dir = "/run/netns"

// Namespace is a named network namespace.
type Namespace struct{ Name string }

// Path of the namespace in the file system.
func (n Namespace) Path() string { return filepath.Join(dir, n.Name) }

// Exists tells whether the namespace is there.
func (n Namespace) Exists() bool {
	var st unix.Statfs_t
	return unix.Statfs(n.Path(), &st) == nil && st.Type == unix.NSFS_MAGIC
}

// Create makes the namespace unless it exists, with its loopback interface up.
func (n Namespace) Create() error {
	if n.Exists() {
		return nil
	}
	err := onThread(func() error {
		h, err := netns.NewNamed(n.Name)
		if err != nil {
			return err
		}
		return h.Close()
	})
	if err != nil {
		return fmt.Errorf("create network namespace %s: %w", n.Name, err)
	}
	h, err := n.Links()
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return err
	}
	return h.LinkSetUp(lo)
}

// Links opens a netlink handle inside the namespace.
func (n Namespace) Links() (*netlink.Handle, error) {
	f, err := netns.GetFromPath(n.Path())
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", n.Name, err)
	}
	defer f.Close()
	return netlink.NewHandleAt(f)
}

// Do runs f on a thread inside the namespace: sockets opened by f itself, and processes started
// by it, are in the namespace.
func (n Namespace) Do(f func() error) error {
	h, err := netns.GetFromPath(n.Path())
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", n.Name, err)
	}
	defer h.Close()
	return onThread(func() error {
		if err := netns.Set(h); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", n.Name, err)
		}
		return f()
	})
}

// dialTimeout of a connection within this machine.
const dialTimeout = 5 * time.Second

// Dial from inside the namespace, as net.Dialer.DialContext does.
func (n Namespace) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.Do(func() error {
		c, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// onThread runs f, which may change the thread's network namespace, on a thread of its own that
// ends with it. The process's first thread is never used: it can't end, and its namespace is
// what /proc/PID shows as that of the whole process.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(f)
			return
		}
		done <- f()
	}()
	return <-done
}

// Delete ends every process in the namespace and removes it. What the namespace held (links,
// addresses, routes) goes with it.
func (n Namespace) Delete() error {
	if !n.Exists() {
		if err := os.Remove(n.Path()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := n.killAll(); err != nil {
		return err
	}
	if err := netns.DeleteNamed(n.Name); err != nil {
		return fmt.Errorf("delete network namespace %s: %w", n.Name, err)
	}
	return nil
}

// killAll ends the processes in the namespace: everything in it was started by the lab that made it.
func (n Namespace) killAll() error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		pids, err := n.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end process %d in network namespace %s: %w", pid, n.Name, err)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("network namespace %s: processes %v do not end", n.Name, pids)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Processes in the namespace, by pid. Zombies are left out: they hold nothing.
func (n Namespace) Processes() ([]int, error) {
	var want unix.Stat_t
	if err := unix.Stat(n.Path(), &want); err != nil {
		return nil, err
	}
	procs, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range procs {
		var st unix.Stat_t
		if unix.Stat(p, &st) != nil || st.Ino != want.Ino || st.Dev != want.Dev {
			continue // ended meanwhile, a zombie, or elsewhere
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(p))))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
