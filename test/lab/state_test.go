package lab

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const running = "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"
	stat := func(state, flags string) string {
		return "4711 (a b) c) " + state + " 1 4711 4711 0 -1 " + flags + strings.Repeat(" 0", 12) + " 8800 0 0"
	}
	tests := map[string]struct {
		stat, status string
		ending       bool
	}{
		"runs":                    {stat("S", "4194560"), running, false},
		"zombie":                  {stat("Z", "4194560"), running, true},
		"ends, waits for others":  {stat("S", "4194564"), running, true},
		"killed, one thread":      {stat("R", "4194560"), strings.Replace(running, "SigPnd:\t0000000000000000", "SigPnd:\t0000000000000100", 1), true},
		"killed, the whole":       {stat("D", "4194560"), strings.Replace(running, "ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000000100", 1), true},
		"another signal, pending": {stat("D", "4194560"), strings.Replace(running, "ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000004000", 1), false},
	}
	for name, tt := range tests {
		s, err := parseStat(tt.stat, tt.status)
		if err != nil || s.ending != tt.ending || s.start != "8800" {
			t.Errorf("%s: got %+v, %v, want start 8800 and ending %v", name, s, err, tt.ending)
		}
	}
	if _, err := parseStat("4711 (x) S 1", running); err == nil {
		t.Error("a short stat was taken")
	}
}

// A process that was killed does not run for the lab, and is not waited for when it has ended.
func TestAwaitEnd(t *testing.T) {
	l := Lab{Name: "t", Root: t.TempDir()}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.recordProcess("seed", cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := l.awaitEnd(t.Context(), "seed"); err != nil {
		t.Error(err)
	}
	if pid, err := l.process("seed"); err != nil || pid != cmd.Process.Pid {
		t.Errorf("it runs: got pid %d, %v, want %d", pid, err, cmd.Process.Pid)
	}
	if err := cmd.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	if pid, err := l.process("seed"); err != nil || pid != 0 {
		t.Errorf("right after it was killed: got pid %d, %v, want 0", pid, err)
	}
	if err := l.awaitEnd(t.Context(), "seed"); err != nil { // a zombie by then: nobody has waited for it
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if err := l.awaitEnd(t.Context(), "seed"); err != nil {
		t.Error(err)
	}
}
