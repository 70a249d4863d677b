package nodeinit

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/node/service"
)

// TestMain makes orphans come back to this process, as they do to process 1. As "notify" it is a service of Type=notify.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "notify" {
		notify(os.Args[2])
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// notify says that it is ready when a file appears.
func notify(file string) {
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err == nil {
		_, err = conn.Write([]byte("STATUS=up\nREADY=1\n"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

type world struct {
	*Supervisor
	t    *testing.T
	root string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root := t.TempDir()
	s, err := New(Config{Root: root, RunDir: filepath.Join(root, "run/regiond"), LogDir: filepath.Join(root, "var/log"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{s, t, root}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// unit writes a unit file.
func (w *world) unit(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.root, "etc/systemd/system", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) state(name string) State { return w.States([]string{name})[0] }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

func (w *world) file(path string) string {
	b, err := os.ReadFile(filepath.Join(w.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func alive(pid int) bool { return pid > 0 && unix.Kill(pid, 0) == nil }

// pid that a service wrote to a file.
func (w *world) pid(path string) int {
	w.t.Helper()
	n := 0
	eventually(w.t, path, func() bool {
		var err error
		n, err = strconv.Atoi(w.file(path))
		return err == nil
	})
	return n
}

func TestSimple(t *testing.T) {
	w := newWorld(t)
	w.must(os.MkdirAll(filepath.Join(w.root, "etc"), 0o755))
	w.must(os.WriteFile(filepath.Join(w.root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\nguest:x:64999:64999::/var/guest:/bin/false\n"), 0o644))
	w.must(os.WriteFile(filepath.Join(w.root, "etc/group"), []byte("guest:x:64999:\nkvm:x:64998:guest\ndata:x:64997:\n"), 0o644))
	w.must(os.WriteFile(filepath.Join(w.root, "env"), []byte("# c\nB=\"from file\"\n"), 0o644))
	w.unit("a.service", `[Service]
User=guest
SupplementaryGroups=data
UMask=0027
Environment=A=x
EnvironmentFile=/env
EnvironmentFile=-/none
RuntimeDirectory=a
RuntimeDirectoryMode=0770
LimitNOFILE=77
ExecStartPre=+/bin/sh -c 'echo pre $(id -u)'
ExecStart=/bin/sh -c 'echo $(id -u) $(id -G) $A $B $USER $HOME $(umask) $(ulimit -n); exec sleep 1000'
`)
	w.must(w.Start(t.Context(), "a.service"))
	s := w.state("a.service")
	if !s.Runs() || !alive(s.PID) || s.Invocation == "" || time.Since(s.Started) > time.Minute || !s.Enabled {
		t.Errorf("%+v", s)
	}
	want := "pre 0\n64999 64999 64997 64998 x from file guest /var/guest 0027 77"
	eventually(t, "the log "+want, func() bool { return w.file("var/log/a.log") == want })
	st, err := os.Stat(filepath.Join(w.root, "run/a"))
	if err != nil || st.Mode().Perm() != 0o770 || st.Sys().(*syscall.Stat_t).Uid != 64999 {
		t.Errorf("runtime directory: %v %v", st, err)
	}
	w.must(w.Start(t.Context(), "a.service")) // runs already
	if again := w.state("a.service"); again.PID != s.PID {
		t.Errorf("started twice: %+v", again)
	}
	w.must(w.Restart(t.Context(), "a.service"))
	if again := w.state("a.service"); again.PID == s.PID || again.Invocation == s.Invocation || alive(s.PID) {
		t.Errorf("not restarted: %+v", again)
	}
	w.must(w.Stop(t.Context(), "a.service"))
	if s := w.state("a.service"); s.Active != service.Inactive || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(filepath.Join(w.root, "run/a")); err == nil {
		t.Error("the runtime directory was left")
	}
	if err := w.Start(t.Context(), "none.service"); err == nil || !w.state("none.service").Missing {
		t.Errorf("a unit that is not there: %v %+v", err, w.state("none.service"))
	}
}

func TestNotify(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	w.must(err)
	begin := filepath.Join(w.root, "go")
	w.unit("n.service", "[Service]\nType=notify\nExecStart="+self+" notify "+begin+"\n")
	done := make(chan error, 1)
	go func() { done <- w.Start(context.Background(), "n.service") }()
	eventually(t, "starting", func() bool { return w.state("n.service").PID != 0 })
	if s := w.state("n.service"); s.Active != service.Activating {
		t.Errorf("%+v", s)
	}
	w.must(os.WriteFile(begin, nil, 0o644))
	w.must(<-done)
	if s := w.state("n.service"); s.Active != service.Active {
		t.Errorf("%+v", s)
	}
	// One that is never ready ends when its time is up, or when it is stopped meanwhile.
	w.unit("late.service", "[Service]\nType=notify\nTimeoutStartSec=100ms\nExecStart="+self+" notify /nowhere\n")
	if err := w.Start(t.Context(), "late.service"); err == nil || !strings.Contains(err.Error(), "not within 100ms") {
		t.Errorf("%v", err)
	}
	if s := w.state("late.service"); s.Active != service.Failed || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	w.unit("never.service", "[Service]\nType=notify\nTimeoutStartSec=infinity\nRestart=always\nExecStart="+self+" notify /nowhere\n")
	go func() { done <- w.Start(context.Background(), "never.service") }()
	eventually(t, "starting", func() bool { return w.state("never.service").PID != 0 })
	w.must(w.Stop(t.Context(), "never.service"))
	if err := <-done; err == nil {
		t.Error("a start that was stopped succeeded")
	}
	if s := w.state("never.service"); s.Active != service.Inactive {
		t.Errorf("%+v", s)
	}
	w.unit("dies.service", "[Service]\nType=notify\nExecStart=/bin/sh -c 'echo no such thing >&2; exit 3'\n")
	if err := w.Start(t.Context(), "dies.service"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	eventually(t, "the reason", func() bool { return strings.Contains(w.state("dies.service").Message, "exit status 3") })
}

func TestRestartAfterCrash(t *testing.T) {
	w := newWorld(t)
	w.unit("c.service", "[Service]\nRestart=on-failure\nRestartSec=20ms\nExecStart=/bin/sleep 1000\n")
	w.must(w.Start(t.Context(), "c.service"))
	first := w.state("c.service")
	w.must(unix.Kill(first.PID, unix.SIGKILL))
	eventually(t, "another process", func() bool { s := w.state("c.service"); return s.Runs() && s.PID != first.PID })
	s := w.state("c.service")
	if s.Restarts != 1 || s.Invocation == first.Invocation {
		t.Errorf("%+v", s)
	}
	w.must(unix.Kill(s.PID, unix.SIGTERM)) // a clean end, for systemd too
	eventually(t, "the end", func() bool { return w.state("c.service").Active == service.Inactive })

	// What ends at once, again and again, is started less and less often, and can be stopped meanwhile.
	w.unit("loop.service", "[Service]\nRestart=always\nRestartSec=10ms\nExecStart=/bin/sh -c 'echo broken; exit 1'\n")
	w.must(w.Start(t.Context(), "loop.service"))
	eventually(t, "three restarts", func() bool { return w.state("loop.service").Restarts >= 3 })
	eventually(t, "the reason", func() bool { return strings.Contains(w.state("loop.service").Message, "exit status 1: broken") })
	w.must(w.Stop(t.Context(), "loop.service"))
	if s := w.state("loop.service"); s.Active != service.Inactive {
		t.Errorf("%+v", s)
	}
}

func TestKillModes(t *testing.T) {
	for mode, survives := range map[string]bool{"control-group": false, "mixed": false, "process": true} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			// A daemon of its own session, as dnsmasq is one. It writes its number last of all: while it called exec, /proc would not show
			// its environment.
			w.unit("k.service", "[Service]\nKillMode="+mode+"\nExecStart=/bin/sh -c 'setsid sh -c \"echo \\\\$\\\\$ > "+w.root+"/daemon; sleep 1000\" & exec sleep 1000'\n")
			w.must(w.Start(t.Context(), "k.service"))
			daemon, main := w.pid("daemon"), w.state("k.service").PID
			w.must(w.Stop(t.Context(), "k.service"))
			eventually(t, "the end of the main process", func() bool { return !alive(main) })
			if survives {
				if !alive(daemon) {
					t.Error("the daemon was killed")
				}
				w.must(w.Start(t.Context(), "k.service"))
				w.must(w.Restart(t.Context(), "k.service"))
				if !alive(daemon) {
					t.Error("the daemon did not outlive a restart")
				}
			} else {
				eventually(t, "the end of the daemon", func() bool { return !alive(daemon) })
			}
			w.must(w.Supervisor.service("k.service").stop(t.Context(), true))
			eventually(t, "the end of all", func() bool { return !alive(daemon) })
		})
	}
}

func TestStopTimeout(t *testing.T) {
	w := newWorld(t)
	w.unit("stubborn.service", "[Service]\nTimeoutStopSec=100ms\nExecStart=/bin/sh -c 'trap \"\" TERM; echo set; while :; do sleep 1000; done'\n")
	w.must(w.Start(t.Context(), "stubborn.service"))
	eventually(t, "the trap", func() bool { return w.file("var/log/stubborn.log") == "set" })
	pid := w.state("stubborn.service").PID
	w.must(w.Stop(t.Context(), "stubborn.service"))
	if alive(pid) {
		t.Error("still alive")
	}
}

func TestOneshot(t *testing.T) {
	w := newWorld(t)
	w.unit("o.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo one'\nExecStart=/bin/sh -c 'echo two'\nExecStop=/bin/sh -c 'echo stop'\n")
	w.must(w.Start(t.Context(), "o.service"))
	if s := w.state("o.service"); s.Active != service.Active || s.Sub != "exited" || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	w.must(w.Stop(t.Context(), "o.service"))
	eventually(t, "the log", func() bool { return w.file("var/log/o.log") == "one\ntwo\nstop" })
	w.unit("f.service", "[Service]\nType=oneshot\nExecStartPre=-/bin/false\nExecStart=/bin/sh -c 'echo because; exit 2'\n")
	if err := w.Start(t.Context(), "f.service"); err == nil || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("%v", err)
	}
	if s := w.state("f.service"); s.Active != service.Failed {
		t.Errorf("%+v", s)
	}
	w.unit("cond.service", "[Unit]\nConditionPathExists=/nothing\n[Service]\nExecStart=/bin/false\n")
	w.must(w.Start(t.Context(), "cond.service"))
	if s := w.state("cond.service"); s.Active != service.Inactive || !strings.Contains(s.Message, "/nothing") {
		t.Errorf("%+v", s)
	}
}

func TestDependencies(t *testing.T) {
	w := newWorld(t)
	w.unit("db.service", "[Service]\nExecStart=/bin/sleep 1000\n")
	w.unit("vswitch.service", "[Unit]\nRequires=db.service network-online.target\nWants=broken.service\n[Service]\nExecStart=/bin/sleep 1000\n")
	w.unit("broken.service", "[Service]\nExecStart=/no/such/program\n")
	w.unit("agent.service", "[Unit]\nPartOf=vswitch.service\n[Service]\nExecStart=/bin/sleep 1000\nExecReload=/bin/sh -c 'echo reload $MAINPID'\n")
	w.must(w.Start(t.Context(), "vswitch.service"))
	w.must(w.Start(t.Context(), "agent.service"))
	before := map[string]State{}
	for _, n := range []string{"db.service", "vswitch.service", "agent.service"} {
		if before[n] = w.state(n); !before[n].Runs() {
			t.Errorf("%+v", before[n])
		}
	}
	w.must(w.Restart(t.Context(), "db.service"))
	for n, s := range before {
		if now := w.state(n); !now.Runs() || now.PID == s.PID {
			t.Errorf("after the restart of what it needs: %+v", now)
		}
	}
	w.must(w.Reload(t.Context(), "agent.service"))
	want := fmt.Sprintf("reload %d", w.state("agent.service").PID)
	eventually(t, want, func() bool { return w.file("var/log/agent.log") == want })
	if err := w.Reload(t.Context(), "db.service"); err == nil {
		t.Error("reloaded without ExecReload")
	}
	w.must(w.Stop(t.Context(), "vswitch.service"))
	if w.state("agent.service").Runs() || w.state("vswitch.service").Runs() || !w.state("db.service").Runs() {
		t.Errorf("%+v", w.States(nil))
	}
	w.must(os.Remove(filepath.Join(w.root, "etc/systemd/system/db.service")))
	w.must(w.Stop(t.Context(), "db.service")) // its file is gone
}

func TestOrphansAreReaped(t *testing.T) {
	w := newWorld(t)
	w.unit("o.service", "[Service]\nKillMode=process\nExecStart=/bin/sh -c '(setsid sh -c \"echo \\\\$\\\\$ > "+w.root+"/orphan\" &) ; exec sleep 1000'\n")
	w.must(w.Start(t.Context(), "o.service"))
	pid := w.pid("orphan")
	eventually(t, "the orphan's end without a zombie", func() bool { return !alive(pid) })
}

// A service without root's rights has what its unit gives it, and no more.
func TestAmbientCapabilities(t *testing.T) {
	w := newWorld(t)
	w.must(os.MkdirAll(filepath.Join(w.root, "etc"), 0o755))
	w.must(os.WriteFile(filepath.Join(w.root, "etc/passwd"), []byte("guest:x:64999:64999::/:/bin/sh\n"), 0o644))
	w.unit("c.service", "[Service]\nType=oneshot\nUser=guest\nAmbientCapabilities=CAP_NET_RAW\nExecStart=/bin/grep CapEff /proc/self/status\n")
	w.must(w.Start(t.Context(), "c.service"))
	eventually(t, "CAP_NET_RAW", func() bool { return strings.HasSuffix(w.file("var/log/c.log"), "\t0000000000002000") })
	w.unit("bad.service", "[Service]\nAmbientCapabilities=CAP_FLY\nExecStart=/bin/true\n")
	if err := w.Start(t.Context(), "bad.service"); err == nil || !strings.Contains(err.Error(), "CAP_FLY") {
		t.Errorf("%v", err)
	}
}
