package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCauseIsTheLineThatSaysWhatHappened(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"nothing", "", ""},
		{"last line", "starting\nbind: address already in use\n\n", "bind: address already in use"},
		{"panic and its stack", `time="2026-11-30T20:00:00Z" level=info msg="starting"
panic: assertion failed: Page expected to be: 3, but self identifies as 123

goroutine 1 [running]:
go.etcd.io/bbolt/internal/common.Assert(...)
	go.etcd.io/bbolt@v1.5.0/internal/common/verify.go:67
go.etcd.io/bbolt.Open({0xc0004a2000, 0x5c})
	go.etcd.io/bbolt@v1.5.0/db.go:1293 +0x16d
`, "panic: assertion failed: Page expected to be: 3, but self identifies as 123"},
		{"fault", "unexpected fault address 0x7f0000\nfatal error: fault\n[signal SIGBUS: bus error]\ngoroutine 1 [running]:\n", "unexpected fault address 0x7f0000"},
		{"etcd on a full disk", `{"level":"info","ts":"2026-11-30T20:00:00Z","caller":"x.go:1","msg":"starting"}
{"level":"fatal","ts":"2026-11-30T20:00:00Z","caller":"wal/wal.go:1","msg":"failed to save Raft hard state and entries","error":"write /d/etcd/member/wal/0.wal: no space left on device","stacktrace":"go.etcd.io/etcd\\n\\tx.go:1"}
`, "failed to save Raft hard state and entries: write /d/etcd/member/wal/0.wal: no space left on device"},
		{"containerd", `time="2026-11-30T20:00:00Z" level=fatal msg="failed to start" error="open \"/x\": no space left on device"
`, `failed to start: open "/x": no space left on device`},
		{"an applet's error", "I1130 20:00:00.000000       1 server.go:1] hello\ncontainerd: listen: permission denied\nbye\n", "containerd: listen: permission denied"},
		{"klog", "E1130 20:00:00.000000       1 run.go:72] \"command failed\" err=\"listen tcp: bind: address already in use\"\n", `"command failed" err="listen tcp: bind: address already in use"`},
		{"klog fatal before the end", "F1130 20:00:00.000000       1 a.go:7] no key\nI1130 20:00:00.000000       1 a.go:7] exiting\n", "no key"},
		{"not JSON", "{broken\n", "{broken"},
	} {
		if got := cause(strings.Split(c.lines, "\n")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := cause([]string{"panic: " + strings.Repeat("é", 1000)}); len(got) > longestCause+3 || !strings.HasSuffix(got, "é...") {
		t.Errorf("got %q for a long line, want it cut", got)
	}
}

// A process writes in pieces; only the lines of the process that exited are returned.
func TestLinesAreRememberedAcrossWritesAndForgotten(t *testing.T) {
	l := newLogFile(t.TempDir(), "x")
	for _, s := range []string{"pan", "ic: a\ngorou", "tine 1\n", "rest"} {
		if _, err := l.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(l.takeLines(), "|"); got != "panic: a|goroutine 1|rest" {
		t.Errorf("got %q", got)
	}
	if got := l.takeLines(); len(got) != 0 {
		t.Errorf("second call: got %q, want nothing", got)
	}
	for range 3 * mostLines {
		l.remember([]byte(strings.Repeat("x", 2*longestLine) + "\n"))
	}
	if n := len(l.takeLines()); n > 2*mostLines {
		t.Errorf("got %d lines, want at most %d", n, 2*mostLines)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// On a full disk the log can't be written. An error would close the program's pipe, and SIGPIPE
// would kill it before it reports what happened.
func TestALogThatCannotBeWrittenDoesNotEndTheProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "x.log")); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{dir, filepath.Join(dir, "missing", "folder")} {
		l := newLogFile(where, "x")
		const text = "panic: no space left on device\n"
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("in %s: wrote %d, %v; want %d and no error", where, n, err, len(text))
		}
		if got := cause(l.takeLines()); got != "panic: no space left on device" {
			t.Errorf("in %s: got the cause %q", where, got)
		}
		_ = l.Close()
	}
}
