package nodeinit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// node is what commands work on.
type node struct {
	client client
	logDir string
	out    io.Writer
}

// commands of systemd by name, as far as the agent uses them: it knows of no other service manager.
var commands = map[string]func(n node, ctx context.Context, args []string) error{
	"systemctl":  node.systemctl,
	"journalctl": node.journalctl,
	"networkctl": node.networkctl,
}

// Command runs one of the commands of systemd that process 1 stands in for.
func Command(ctx context.Context, name string, args []string, out io.Writer) error {
	return command(ctx, node{client: newClient(Socket), logDir: "/var/log", out: out}, name, args)
}

func command(ctx context.Context, n node, name string, args []string) error {
	run := commands[name]
	if run == nil {
		return fmt.Errorf("%s: not a command of a namespace node; it has %s", name, strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	}
	return run(n, ctx, args)
}

// split tells options from the words of a command line; after -- there are words only.
func split(args []string) (options map[string]string, words []string) {
	options = map[string]string{}
	for i, a := range args {
		if a == "--" {
			return options, append(words, args[i+1:]...)
		}
		if name, ok := strings.CutPrefix(a, "--"); ok {
			name, value, _ := strings.Cut(name, "=")
			options[name] = value
		} else {
			words = append(words, a)
		}
	}
	return options, words
}

// systemctl has the verbs of systemctl(1) that the agent uses. An option that it does not know
// changes the form of the output only.
func (n node) systemctl(ctx context.Context, args []string) error {
	options, words := split(args)
	if len(words) == 0 {
		return errors.New("systemctl: no verb given")
	}
	verb, units := words[0], words[1:]
	switch {
	case verb == "show":
		return n.show(ctx, units, strings.Split(options["property"], ","))
	case verb == "list-units":
		return n.list(ctx, options["state"])
	case verb == "daemon-reload": // unit files are read at each start
		return nil
	case slices.Contains([]string{"enable", "disable", "reset-failed"}, verb):
		return nil // the agent starts what a node is to run, each time the node starts; and there is no limit of starts
	case slices.Contains([]string{"start", "stop", "restart", "reload"}, verb):
		var errs []error
		for _, u := range units {
			errs = append(errs, n.client.order(ctx, u, verb))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("systemctl: a namespace node has no verb %q", verb)
}

// show prints properties of units, with an empty line between units.
func (n node) show(ctx context.Context, units, properties []string) error {
	states, err := n.client.list(ctx, units)
	if err != nil {
		return err
	}
	for i, s := range states {
		if i > 0 {
			fmt.Fprintln(n.out)
		}
		have := propertiesOf(s)
		for _, p := range properties {
			if value, ok := have[p]; ok {
				fmt.Fprintf(n.out, "%s=%s\n", p, value)
			}
		}
	}
	return nil
}

// propertiesOf a unit, as systemctl shows them with --timestamp=unix.
func propertiesOf(s State) map[string]string {
	p := map[string]string{
		"Id": s.Name, "LoadState": "loaded", "ActiveState": s.Active, "SubState": s.Sub, "MainPID": strconv.Itoa(s.PID), "InvocationID": s.Invocation,
		"ExecMainStartTimestamp": "", "NRestarts": strconv.Itoa(s.Restarts), "UnitFileState": "enabled", "NeedDaemonReload": "no",
		"Result": s.Result, "ExecMainCode": strconv.Itoa(s.Code), "ExecMainStatus": strconv.Itoa(s.ExitStatus),
	}
	if s.Missing {
		p["LoadState"], p["UnitFileState"] = "not-found", ""
	}
	if !s.Started.IsZero() {
		p["ExecMainStartTimestamp"] = fmt.Sprintf("@%d", s.Started.Unix())
	}
	return p
}

// list prints the units that were started once and are in a state, or in any.
func (n node) list(ctx context.Context, state string) error {
	states, err := n.client.list(ctx, nil)
	for _, s := range states {
		if state == "" || s.Active == state {
			fmt.Fprintf(n.out, "%s loaded %s %s\n", s.Name, s.Active, s.Sub)
		}
	}
	return err
}

// journalctl prints the last lines that a unit wrote.
func (n node) journalctl(_ context.Context, args []string) error {
	options, words := split(args)
	unit := options["unit"]
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "_SYSTEMD_UNIT="); ok {
			unit = name
		}
	}
	if unit == "" {
		return errors.New("journalctl: no unit given: --unit=NAME")
	}
	b, err := os.ReadFile(filepath.Join(n.logDir, logName(unit)))
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(bytes.TrimRight(b, "\n"), []byte("\n"))
	if text, ok := options["lines"]; ok {
		most, err := strconv.Atoi(text)
		if err != nil || most < 0 {
			return fmt.Errorf("journalctl: --lines=%s is not a number", text)
		}
		lines = lines[max(0, len(lines)-most):]
	}
	_, err = fmt.Fprintf(n.out, "%s\n", bytes.Join(lines, nil))
	return err
}

// networkctl has nothing to do: the lab gives a node its network, and networkd does not run on it.
func (n node) networkctl(_ context.Context, args []string) error {
	if len(args) != 1 || args[0] != "reload" {
		return fmt.Errorf("networkctl: a namespace node has no %q", strings.Join(args, " "))
	}
	return nil
}
