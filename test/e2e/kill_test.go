//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"regiond.dev/regiond/test/lab"
)

// TestKilledInEachStage: regiond is killed with SIGKILL as soon as each stage of an installation shows, from its first
// start on, and takes its whole control plane with it. The server still gets Ready, and `lab up` does not notice.
func TestKilledInEachStage(t *testing.T) {
	l := NewLab(t, *regiond, "k")
	u := l.Up("--config", l.Write(oneServer))
	kill := func(stage string) {
		t.Helper()
		l.Eventually("regiond runs after "+stage, time.Minute, func() (bool, string) { return l.PID("regiond run") != 0, "no process" })
		l.Kill("regiond run")
		t.Logf("killed: %s", stage)
	}
	l.Eventually("rack", 2*time.Minute, func() (bool, string) {
		lines := u.Lines()
		return slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, "rack: ") }), strings.Join(lines, "\n")
	})
	kill("bootstrap")
	// The serial console, from before power-on; it is the rack's and does not depend on regiond.
	var console bytes.Buffer
	watching, detach := context.WithCancel(t.Context())
	defer detach()
	attached := exec.CommandContext(watching, *regiond, "lab", "console", "--lab", l.name, "node1")
	attached.Cancel = func() error { return attached.Process.Signal(syscall.SIGTERM) }
	attached.WaitDelay = 10 * time.Second
	attached.Stdout, attached.Stderr = &console, &console
	if err := attached.Start(); err != nil {
		t.Fatal(err)
	}
	for _, stage := range append([]lab.Stage{lab.StageControlPlane}, lab.ServerStages...) {
		if stage == lab.StageReady {
			break
		}
		l.Eventually(string(stage), 6*time.Minute, func() (bool, string) {
			lines := u.Lines()
			return slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, string(stage)) }), strings.Join(lines, "\n")
		})
		kill(string(stage))
	}
	l.Wait(u)
	detach()
	if err := attached.Wait(); !errors.Is(err, context.Canceled) { // what Wait says of a program that ends well when told to
		t.Errorf("lab console: %v", err)
	}
	if !strings.Contains(console.String(), "Linux version ") {
		t.Errorf("lab console showed no kernel boot: %q", console.String())
	}
	assertStages(t, u.Lines())
	l.ready(t, 2*time.Minute)
	assertInstalled(l)
}
