package nodeinit

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// markVariable in the environment of every process of a service names its unit. Children inherit it, also those that leave their
// parent's session to become daemons. Where there is no control group, it is what tells whose a process is. (Jenkins finds what
// builds have left behind in the same way.) libvirt gives its guests an environment of their own, and they belong to no unit.
const markVariable = "REGIOND_UNIT"

// members are the processes of a unit but its main process: those that carry its mark, and those of its main process' session,
// for programs like sudo that clear the environment.
func members(unit string, main int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte(markVariable + "=" + unit)
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == main || pid == os.Getpid() {
			continue
		}
		if main > 0 && session(pid) == main || marked(pid, mark) {
			found = append(found, pid)
		}
	}
	return found
}

func marked(pid int, mark []byte) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.Equal(variable, mark) {
			return true
		}
	}
	return false
}

// session of a process: the sixth field of proc_pid_stat(5); the second, in parentheses, may hold anything.
func session(pid int) int {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 4 || f[0] == "Z" {
		return 0
	}
	n, err := strconv.Atoi(f[3])
	if err != nil {
		return 0
	}
	return n
}

// killAll kills processes. New ones may have been born meanwhile, so it looks again until there are none.
func killAll(unit string, main int) {
	for range 10 {
		left := members(unit, main)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	}
}
