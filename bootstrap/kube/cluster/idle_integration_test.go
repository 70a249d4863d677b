//go:build integration

package cluster_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testIdle only measures, because other programs share the machine.
func (s *seed) testIdle(t *testing.T) {
	const window = 20 * time.Second
	pids := s.processes(t, "")
	before := cpuTicks(t, pids)
	timer := time.NewTimer(window)
	<-timer.C
	ticks := cpuTicks(t, pids) - before
	var pss int
	for _, pid := range pids {
		if strings.Contains(commandLine(pid), "part ") {
			continue // this test's own parts and pods
		}
		pss += proportionalSet(t, pid)
	}
	t.Logf("idle: %.1f %% of a core, %d MB PSS in %d processes", float64(ticks)/window.Seconds(), pss/1024, len(pids))
}

func cpuTicks(t *testing.T, pids []int) int {
	t.Helper()
	total := 0
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // exited: a plugin or a probe
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, f := range fields[11:13] { // utime, stime, in hundredths of a second
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// proportionalSet returns a process's PSS in kB.
func proportionalSet(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0 // ended
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}
