// Package unit reads unit files of systemd (systemd.syntax(7), systemd.unit(5), systemd.service(5), systemd.exec(5)), as far as
// package nodeinit runs them. What it does not know it names, so that nothing is left out in
// silence. It is pure.
package unit

import (
	"fmt"
	"strings"
	"time"
)

// Types of services.
const (
	TypeSimple  = "simple"
	TypeExec    = "exec" // like simple: the built-in manager always learns of a failed execve
	TypeNotify  = "notify"
	TypeOneshot = "oneshot"
)

// Kill modes.
const (
	KillGroup   = "control-group" // all processes of the unit
	KillMixed   = "mixed"         // the main process is asked, then all are killed
	KillProcess = "process"       // the main process only: guests and dnsmasq outlive it
)

// Unit as its files say it.
type Unit struct {
	Name        string
	Description string
	// After orders, Requires (with BindsTo) and Wants also start, PartOf stops and restarts along.
	After, Requires, Wants, PartOf []string
	// Conditions of ConditionPathExists, with a leading ! where it must not exist.
	Conditions []string

	Type            string
	RemainAfterExit bool
	StartPre, Start, StartPost,
	Reload, Stop, StopPost []Command

	User, Group         string
	SupplementaryGroups []string
	UMask               uint32
	Environment         []string // NAME=value
	EnvironmentFiles    []string // with a leading - where it may be absent
	WorkingDirectory    string   // with a leading - where it may be absent, ~ for the user's home
	Directories         []Directory
	// AmbientCapabilities by name, e.g. CAP_NET_ADMIN.
	AmbientCapabilities []string
	Limits              []Limit
	OOMScoreAdjust      *int

	Restart                   string
	RestartWait               time.Duration
	TimeoutStart, TimeoutStop time.Duration // 0: none
	KillMode                  string
	KillSignal                string // without SIG
	SuccessExitStatus         []string

	// Unknown are assignments that have no effect here, as "Section.Key".
	Unknown []string
}

// Command line.
type Command struct {
	// Argv after splitting and specifiers; environment variables are still in it.
	Argv []string
	// IgnoreFailure is the prefix -, Privileged the prefixes + and !, Verbatim the prefix : (no variables).
	IgnoreFailure, Privileged, Verbatim bool
	// Argv0 is the name it is called by (prefix @), empty for the path.
	Argv0 string
}

// Directory that is made before the start.
type Directory struct {
	// Path below Root, which is /run, /var/lib, /var/cache or /var/log.
	Root, Path string
	Mode       uint32
	// Remove it when the service has stopped: a RuntimeDirectory that is not preserved.
	Remove bool
}

// Limit of a resource, setrlimit(2).
type Limit struct {
	Name       string // NOFILE, NPROC, CORE, MEMLOCK
	Soft, Hard uint64
}

// Defaults of systemd-system.conf(5).
const (
	defaultTimeout     = 90 * time.Second
	defaultRestartWait = 100 * time.Millisecond
)

// Source is one file that a unit is read from: the unit file first, its drop-ins after it.
type Source struct{ Name, Content string }

// Parse reads a unit. name is its full name, with the instance, e.g. nova-compute.service.
func Parse(name string, sources ...Source) (*Unit, error) {
	u := &Unit{Name: name, Type: TypeSimple, UMask: 0o022, Restart: "no", RestartWait: defaultRestartWait,
		TimeoutStart: -1, TimeoutStop: defaultTimeout, KillMode: KillGroup, KillSignal: "TERM"}
	p := &parser{unit: u, modes: map[string]uint32{}, directories: map[string][]string{}}
	for _, s := range sources {
		if err := p.file(s); err != nil {
			return nil, err
		}
	}
	p.finish()
	return u, u.check()
}

func (u *Unit) check() error {
	switch u.Type {
	case TypeSimple, TypeExec, TypeNotify, TypeOneshot:
	default:
		return fmt.Errorf("unit %s: Type=%s is not supported here: simple, exec, notify and oneshot are", u.Name, u.Type)
	}
	switch u.KillMode {
	case KillGroup, KillMixed, KillProcess:
	default:
		return fmt.Errorf("unit %s: KillMode=%s is not supported here: control-group, mixed and process are", u.Name, u.KillMode)
	}
	switch u.Restart {
	case "no", "always", "on-success", "on-failure", "on-abnormal", "on-abort", "on-watchdog":
	default:
		return fmt.Errorf("unit %s: Restart=%s is unknown", u.Name, u.Restart)
	}
	if !strings.HasSuffix(u.Name, ".service") {
		return nil
	}
	if n := len(u.Start); n == 0 || n > 1 && u.Type != TypeOneshot {
		return fmt.Errorf("unit %s: it has %d ExecStart= lines; a service has one, a oneshot one or more", u.Name, n)
	}
	return nil
}

// Restarts says whether the service is to be started again after its main process ended by itself (systemd.service(5), the table
// of exit causes).
func (u *Unit) Restarts(clean, signalled bool) bool {
	switch u.Restart {
	case "always":
		return true
	case "on-success":
		return clean
	case "on-failure":
		return !clean
	case "on-abnormal", "on-abort":
		return !clean && signalled
	}
	return false
}
