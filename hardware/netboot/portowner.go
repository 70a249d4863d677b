package netboot

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const procDir = "/proc"

// process that holds a port.
type process struct {
	name string
	pid  int
}

// holder finds the process whose socket is bound to a port, through the tables that proc(5)
// describes under /proc/net/tcp. It is help for an error message: what it cannot read, it passes over.
func holder(proc, proto string, at netip.AddrPort) (process, bool) {
	for _, table := range []string{proto, proto + "6"} {
		for _, inode := range socketInodes(filepath.Join(proc, "thread-self", "net", table), at) {
			if p, ok := owner(proc, inode); ok {
				return p, true
			}
		}
	}
	return process{}, false
}

// tcpListen is TCP_LISTEN in the column st.
const tcpListen = "0A"

// socketInodes reads the inodes of the sockets that are in the way of an address.
func socketInodes(table string, at netip.AddrPort) []string {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	isTCP := strings.HasPrefix(filepath.Base(table), "tcp")
	var inodes []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || (isTCP && fields[3] != tcpListen) {
			continue
		}
		host, port, ok := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseUint(port, 16, 16); !ok || err != nil || uint16(n) != at.Port() {
			continue
		}
		a, ok := procAddress(host)
		if ok && (a == at.Addr() || a.IsUnspecified() || at.Addr().IsUnspecified()) {
			inodes = append(inodes, fields[9])
		}
	}
	return inodes
}

// procAddress decodes an address: hex of 32-bit words in the byte order of the host.
func procAddress(s string) (netip.Addr, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return a.Unmap(), ok
}

// owner finds the process that has a socket open.
func owner(proc, inode string) (process, bool) {
	fds, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "[0-9]*"))
	if err != nil {
		return process{}, false
	}
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || target != "socket:["+inode+"]" {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue
		}
		return process{name: strings.TrimSpace(string(comm)), pid: pid}, true
	}
	return process{}, false
}
