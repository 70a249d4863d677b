package preflight

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tcpListen is TCP_LISTEN of the kernel's include/net/tcp_states.h, in hexadecimal as in
// /proc/net/tcp.
const tcpListen = "0A"

// listening returns the inodes of sockets that conflict with a port (proc(5), /proc/net/tcp).
func listening(proc string, p Port) (map[string]bool, error) {
	name := strings.TrimRight(p.Network, "46")
	inodes := map[string]bool{}
	for _, file := range []string{name, name + "6"} {
		f, err := os.Open(filepath.Join(proc, "thread-self/net", file))
		if errors.Is(err, os.ErrNotExist) {
			continue // IPv6 is disabled
		}
		if err != nil {
			return nil, err
		}
		s := bufio.NewScanner(f)
		for s.Scan() {
			local, state, inode, ok := socketLine(s.Text())
			if !ok || local.Port() != p.Number || name == "tcp" && state != tcpListen {
				continue
			}
			if a := local.Addr().Unmap(); a == p.Address || a.IsUnspecified() || p.Address.IsUnspecified() {
				inodes[inode] = true
			}
		}
		if err := errors.Join(s.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return inodes, nil
}

// socketLine parses "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...".
func socketLine(line string) (local netip.AddrPort, state, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return
	}
	addr, port, found := strings.Cut(f[1], ":")
	if !found {
		return // the header
	}
	b, err := hex.DecodeString(addr)
	if err != nil || len(b)%4 != 0 {
		return
	}
	// The kernel prints each 32-bit word in the byte order of the host.
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	a, fits := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !fits || err != nil {
		return
	}
	return netip.AddrPortFrom(a, uint16(n)), f[3], f[9], true
}

// processWith finds the first process that has one of the sockets open.
func processWith(proc string, inodes map[string]bool, dataDir string, running *Process) (*Process, error) {
	if len(inodes) == 0 {
		return nil, nil
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fds, err := os.ReadDir(filepath.Join(proc, e.Name(), "fd"))
		if err != nil {
			continue // it ended meanwhile, or is not accessible
		}
		for _, fd := range fds {
			link, err := os.Readlink(filepath.Join(proc, e.Name(), "fd", fd.Name()))
			if err != nil {
				continue
			}
			inode, isSocket := strings.CutPrefix(link, "socket:[")
			if isSocket && inodes[strings.TrimSuffix(inode, "]")] {
				p := Describe(proc, pid)
				p.Own = running != nil && running.PID == pid || usesDir(proc, pid, dataDir)
				return &p, nil
			}
		}
	}
	return nil, nil
}

// Describe describes a process by its /proc entry. Fields that can't be read are empty.
func Describe(proc string, pid int) Process {
	p := Process{PID: pid, Name: "unknown"}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if args := arguments(dir); len(args) > 0 {
		p.Name = path.Base(args[0])
	} else if b, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
		p.Name = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		p.Unit = unitOf(string(b))
	}
	return p
}

// unitOf returns the systemd service in lines of cgroups(7): "0::/system.slice/dnsmasq.service".
func unitOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		for _, part := range slices.Backward(strings.Split(strings.TrimSpace(line), "/")) {
			if strings.HasSuffix(part, ".service") {
				return part
			}
		}
	}
	return ""
}

func arguments(dir string) []string {
	b, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}

// usesDir reports whether an argument of the process names a file in the data directory. This is
// true of all components that regiond starts, which may outlive a killed regiond.
func usesDir(proc string, pid int, dataDir string) bool {
	args := arguments(filepath.Join(proc, strconv.Itoa(pid)))
	return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, filepath.Clean(dataDir)+"/") })
}
