package supervisor

import (
	"os/exec"
	"runtime"
)

// launcher starts processes from one operating-system thread that lives as long as the supervisor.
// PR_SET_PDEATHSIG depends on the parent's thread, not its process (prctl(2)): a child would be
// killed when the Go runtime ends the thread that started it (after a goroutine returns while
// locked to it, as in code that switches network namespaces).
type launcher struct {
	requests chan launch
	done     chan struct{}
}

type launch struct {
	cmd    *exec.Cmd
	result chan error
}

func newLauncher() *launcher {
	l := &launcher{requests: make(chan launch), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for r := range l.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd) error {
	r := launch{cmd: cmd, result: make(chan error)}
	l.requests <- r
	return <-r.result
}

func (l *launcher) close() {
	close(l.requests)
	<-l.done
}
