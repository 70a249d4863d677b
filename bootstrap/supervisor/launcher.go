package supervisor

import (
	"os/exec"
	"runtime"
)

// launcher starts processes from one operating-system thread that lives as long as the supervisor. PR_SET_PDEATHSIG is about the
// parent's thread, not its process (prctl(2)): a child started from a thread that Go later ends (a goroutine that returns while
// locked to it, as code switching network namespaces does) would be killed with the thread.
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
