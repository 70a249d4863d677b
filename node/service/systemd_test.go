package service

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// show is what systemctl of systemd 252 has said of three units, and in the same form of a fourth.
const show = `MainPID=4711
Result=success
NRestarts=2
ExecMainStartTimestamp=@1764450000
ExecMainCode=0
ExecMainStatus=0
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
NeedDaemonReload=yes
InvocationID=0123456789abcdef0123456789abcdef

MainPID=0
Result=success
NRestarts=0
ExecMainStartTimestamp=
ExecMainCode=0
ExecMainStatus=0
LoadState=loaded
ActiveState=inactive
SubState=dead
UnitFileState=static
NeedDaemonReload=no
InvocationID=

MainPID=0
Result=success
NRestarts=0
ExecMainStartTimestamp=
ExecMainCode=0
ExecMainStatus=0
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
NeedDaemonReload=no
InvocationID=

MainPID=0
Result=exit-code
NRestarts=5
ExecMainStartTimestamp=@1764450001
ExecMainCode=1
ExecMainStatus=3
LoadState=loaded
ActiveState=failed
SubState=failed
UnitFileState=disabled
NeedDaemonReload=no
InvocationID=ff
`

func TestStates(t *testing.T) {
	var asked []string
	s := Systemd{Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		asked = append(asked, name+" "+strings.Join(args, " "))
		if name == "journalctl" {
			return []byte("no such database\n"), nil
		}
		return []byte(show), nil
	}}
	names := []string{"a.service", "b.service", "c.service", "d.service"}
	states, err := s.States(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]State{
		"a.service": {Name: "a.service", Active: Active, Sub: "running", PID: 4711, Invocation: "0123456789abcdef0123456789abcdef", Started: time.Unix(1764450000, 0),
			Restarts: 2, Enabled: true, Stale: true},
		"b.service": {Name: "b.service", Active: Inactive, Sub: "dead", Enabled: true},
		"c.service": {Name: "c.service", Active: Inactive, Sub: "dead", Missing: true},
		"d.service": {Name: "d.service", Active: Failed, Sub: "failed", Invocation: "ff", Started: time.Unix(1764450001, 0), Restarts: 5,
			Message: "exit-code, exit status 3: no such database"},
	}
	if !reflect.DeepEqual(states, want) {
		t.Errorf("got  %+v\nwant %+v", states, want)
	}
	if len(asked) != 2 || !strings.HasSuffix(asked[0], " -- a.service b.service c.service d.service") || !strings.Contains(asked[1], "_SYSTEMD_UNIT=d.service") {
		t.Errorf("asked %q", asked)
	}
	if _, err := s.States(t.Context(), names[:3]); err == nil {
		t.Error("four answers to a question for three units were taken")
	}
	for _, bad := range []string{"", "ActiveState=active\nMainPID=x\n", "ActiveState=active\nExecMainStartTimestamp=Mon 2025-12-01\n"} {
		s.Run = func(context.Context, string, ...string) ([]byte, error) { return []byte(bad), nil }
		if got, err := s.States(t.Context(), names[:1]); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestOrders(t *testing.T) {
	var asked []string
	fail := ""
	s := Systemd{Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		asked = append(asked, strings.Join(args, " "))
		if args[0] == fail {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	ctx := t.Context()
	fail = "reset-failed" // of a unit that is not loaded: no reason not to start it
	err := errors.Join(s.Start(ctx, "a.service"), s.Stop(ctx, "a.service"), s.Restart(ctx, "a.service"), s.Reload(ctx, "a.service"),
		s.Enable(ctx, "a.service"), s.Disable(ctx, "a.service"), s.ReloadUnits(ctx))
	want := []string{"reset-failed a.service", "start a.service", "stop a.service", "restart a.service", "reload a.service", "enable --no-reload a.service",
		"disable --no-reload a.service", "daemon-reload"}
	if err != nil || !slices.Equal(asked, want) {
		t.Errorf("%q %v", asked, err)
	}
	fail = "start"
	if err := s.Start(ctx, "a.service"); err == nil {
		t.Error("a start that failed was not reported")
	}
}
