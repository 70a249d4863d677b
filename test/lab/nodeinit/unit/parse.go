package unit

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxLine bounds a line with its continuations in bytes, as systemd does (LONG_LINE_MAX).
const maxLine = 1 << 20

type parser struct {
	unit        *Unit
	modes       map[string]uint32
	directories map[string][]string
	preserve    bool
}

// roots of the directories that a service may have (systemd.exec(5)).
var roots = []struct{ key, root string }{
	{"RuntimeDirectory", "/run"}, {"StateDirectory", "/var/lib"}, {"CacheDirectory", "/var/cache"}, {"LogsDirectory", "/var/log"},
}

// silent are keys that need no word: they describe, install, or protect where systemd runs the unit.
var silent = []string{
	"Unit.Documentation", "Unit.Before", "Unit.DefaultDependencies", "Unit.StartLimitIntervalSec", "Unit.StartLimitBurst", "Unit.Conflicts",
	"Service.StandardOutput", "Service.StandardError", "Service.SyslogIdentifier", "Service.NotifyAccess", "Service.GuessMainPID",
}

func (p *parser) file(s Source) error {
	section, number := "", 0
	pending, start := "", 0
	for line := range strings.SplitSeq(s.Content, "\n") {
		number++
		line = strings.TrimSpace(line)
		if pending == "" {
			start = number
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
		} else if line != "" && (line[0] == '#' || line[0] == ';') {
			continue // comments between continued lines
		}
		if strings.HasSuffix(line, `\`) {
			pending += strings.TrimSuffix(line, `\`) + " "
			if len(pending) > maxLine {
				return fmt.Errorf("%s:%d: line is longer than %d bytes", s.Name, start, maxLine)
			}
			continue
		}
		line, pending = strings.TrimSpace(pending+line), ""
		if line == "" {
			continue
		}
		if line[0] == '[' {
			if line[len(line)-1] != ']' {
				return fmt.Errorf("%s:%d: section %q does not end with ]", s.Name, start, line)
			}
			section = line[1 : len(line)-1]
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			return fmt.Errorf("%s:%d: %q is not an assignment in a section", s.Name, start, line)
		}
		if err := p.assign(section, strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", s.Name, start, strings.TrimSpace(key), err)
		}
	}
	return nil
}

func (p *parser) assign(section, key, value string) error {
	switch section {
	case "Unit":
		return p.unitKey(key, value)
	case "Service":
		return p.serviceKey(key, value)
	case "Install":
		return nil
	}
	if !strings.HasPrefix(section, "X-") {
		p.unknown(section, key)
	}
	return nil
}

func (p *parser) unknown(section, key string) {
	name := section + "." + key
	if !slices.Contains(silent, name) && !slices.Contains(p.unit.Unknown, name) && !strings.HasPrefix(key, "X-") {
		p.unit.Unknown = append(p.unit.Unknown, name)
	}
}

func (p *parser) unitKey(key, value string) error {
	u := p.unit
	switch key {
	case "Description":
		u.Description = value
	case "After":
		return p.words(&u.After, value)
	case "Requires", "BindsTo", "Requisite":
		return p.words(&u.Requires, value)
	case "Wants", "Upholds":
		return p.words(&u.Wants, value)
	case "PartOf":
		return p.words(&u.PartOf, value)
	case "ConditionPathExists":
		return p.words(&u.Conditions, value)
	default:
		p.unknown("Unit", key)
	}
	return nil
}

func (p *parser) serviceKey(key, value string) (err error) {
	u := p.unit
	switch key {
	case "Type":
		u.Type = value
	case "RemainAfterExit":
		u.RemainAfterExit, err = boolean(value)
	case "ExecStartPre":
		err = p.command(&u.StartPre, value)
	case "ExecStart":
		err = p.command(&u.Start, value)
	case "ExecStartPost":
		err = p.command(&u.StartPost, value)
	case "ExecReload":
		err = p.command(&u.Reload, value)
	case "ExecStop":
		err = p.command(&u.Stop, value)
	case "ExecStopPost":
		err = p.command(&u.StopPost, value)
	case "User":
		u.User = p.specifiers(value)
	case "Group":
		u.Group = p.specifiers(value)
	case "SupplementaryGroups":
		err = p.words(&u.SupplementaryGroups, value)
	case "UMask":
		u.UMask, err = mode(value)
	case "Environment":
		err = p.words(&u.Environment, value)
	case "EnvironmentFile":
		err = p.words(&u.EnvironmentFiles, value)
	case "WorkingDirectory":
		u.WorkingDirectory = p.specifiers(value)
	case "RuntimeDirectoryPreserve":
		p.preserve = value == "restart"
		if !p.preserve {
			p.preserve, err = boolean(value)
		}
	case "AmbientCapabilities":
		err = p.words(&u.AmbientCapabilities, value)
	case "OOMScoreAdjust":
		n := 0
		if n, err = strconv.Atoi(value); err == nil {
			u.OOMScoreAdjust = &n
		}
	case "Restart":
		u.Restart = value
	case "RestartSec":
		u.RestartWait, err = Duration(value)
	case "TimeoutStartSec":
		u.TimeoutStart, err = Duration(value)
	case "TimeoutStopSec":
		u.TimeoutStop, err = Duration(value)
	case "TimeoutSec":
		u.TimeoutStart, err = Duration(value)
		u.TimeoutStop = u.TimeoutStart
	case "KillMode":
		u.KillMode = value
	case "KillSignal":
		u.KillSignal = strings.TrimPrefix(value, "SIG")
	case "SuccessExitStatus":
		err = p.words(&u.SuccessExitStatus, value)
	case "LimitNOFILE", "LimitNPROC", "LimitCORE", "LimitMEMLOCK":
		err = p.limit(strings.TrimPrefix(key, "Limit"), value)
	default:
		return p.directoryKey(key, value)
	}
	return err
}

func (p *parser) directoryKey(key, value string) (err error) {
	for _, r := range roots {
		switch key {
		case r.key:
			list := p.directories[r.key]
			err = p.words(&list, value)
			p.directories[r.key] = list
			return err
		case r.key + "Mode":
			p.modes[r.key], err = mode(value)
			return err
		}
	}
	p.unknown("Service", key)
	return nil
}

func (p *parser) finish() {
	u := p.unit
	for _, r := range roots {
		m, ok := p.modes[r.key]
		if !ok {
			m = 0o755
		}
		for _, d := range p.directories[r.key] {
			clean := path.Clean("/" + d)[1:]
			if clean == "" {
				continue
			}
			u.Directories = append(u.Directories, Directory{Root: r.root, Path: clean, Mode: m, Remove: r.key == "RuntimeDirectory" && !p.preserve})
		}
	}
	if u.TimeoutStart < 0 {
		u.TimeoutStart = defaultTimeout
		if u.Type == TypeOneshot {
			u.TimeoutStart = 0
		}
	}
}

// words appends the words of a value to a list; an empty value empties it.
func (p *parser) words(list *[]string, value string) error {
	if value == "" {
		*list = nil
		return nil
	}
	words, err := Split(value)
	for _, w := range words {
		*list = append(*list, p.specifiers(w))
	}
	return err
}

func (p *parser) command(list *[]Command, value string) error {
	if value == "" {
		*list = nil
		return nil
	}
	var c Command
	argv0 := false
prefixes:
	for value != "" {
		switch value[0] {
		case '-':
			c.IgnoreFailure = true
		case '+', '!':
			c.Privileged = true
		case ':':
			c.Verbatim = true
		case '@':
			argv0 = true
		default:
			break prefixes
		}
		value = value[1:]
	}
	words, err := Split(value)
	if err != nil {
		return err
	}
	for i, w := range words {
		if w == ";" {
			return errors.New("several commands in one line are not supported here; write a line for each")
		}
		words[i] = p.specifiers(w)
	}
	if argv0 && len(words) > 1 {
		c.Argv0 = words[1]
		words = slices.Delete(words, 1, 2)
	}
	if len(words) == 0 || words[0] == "" {
		return errors.New("no program")
	}
	c.Argv = words
	*list = append(*list, c)
	return nil
}

// specifiers that are replaced: the name of the unit and its parts.
func (p *parser) specifiers(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	base := p.unit.Name
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		base = base[:i]
	}
	prefix, instance, _ := strings.Cut(base, "@")
	return strings.NewReplacer("%%", "%", "%n", p.unit.Name, "%N", base, "%p", prefix, "%i", instance, "%I", instance,
		"%t", "/run", "%S", "/var/lib").Replace(s)
}

func (p *parser) limit(name, value string) error {
	soft, hard, two := strings.Cut(value, ":")
	if !two {
		hard = soft
	}
	number := func(s string) (uint64, error) {
		if s == "infinity" {
			return math.MaxUint64, nil
		}
		shift := 0
		if i := strings.IndexAny(s, "KMGT"); i > 0 && i == len(s)-1 {
			shift, s = 10*(strings.IndexByte("KMGT", s[i])+1), s[:i]
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err == nil && n > math.MaxUint64>>shift {
			err = strconv.ErrRange
		}
		return n << shift, err
	}
	l := Limit{Name: name}
	var e1, e2 error
	l.Soft, e1 = number(soft)
	l.Hard, e2 = number(hard)
	p.unit.Limits = append(slices.DeleteFunc(p.unit.Limits, func(o Limit) bool { return o.Name == name }), l)
	return errors.Join(e1, e2)
}

func mode(s string) (uint32, error) {
	m, err := strconv.ParseUint(s, 8, 32)
	if err == nil && m > 0o7777 {
		err = strconv.ErrRange
	}
	return uint32(m), err
}

func boolean(s string) (bool, error) {
	switch s {
	case "1", "yes", "y", "true", "t", "on":
		return true, nil
	case "0", "no", "n", "false", "f", "off":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither yes nor no", s)
}

// spans of systemd.time(7) that unit files of services use.
var spans = map[string]time.Duration{"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"ms": time.Millisecond, "msec": time.Millisecond, "us": time.Microsecond, "usec": time.Microsecond,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour}

// Duration of systemd.time(7), e.g. "90", "1min 30s"; 0 for infinity.
func Duration(s string) (time.Duration, error) {
	if s == "infinity" {
		return 0, nil
	}
	total, rest := 0.0, strings.TrimSpace(s)
	if rest == "" {
		return 0, errors.New("no time")
	}
	for rest != "" {
		i := 0
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '.') {
			i++
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time: %w", s, err)
		}
		rest = strings.TrimLeft(rest[i:], " ")
		i = 0
		for i < len(rest) && (rest[i] >= 'a' && rest[i] <= 'z') {
			i++
		}
		span, ok := spans[rest[:i]]
		if !ok {
			return 0, fmt.Errorf("%q is not a time: unit %q is unknown", s, rest[:i])
		}
		total += n * float64(span)
		rest = strings.TrimLeft(rest[i:], " ")
	}
	if total > float64(math.MaxInt64/2) {
		return 0, fmt.Errorf("%q is too long a time", s)
	}
	return time.Duration(total), nil
}
