package nodeinit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/node/account"
	"regiond.dev/regiond/test/lab/nodeinit/unit"
)

// searchPath of programs that a unit names without their folder, and PATH of services.
const searchPath = commandDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// who a unit's processes run as.
type who struct {
	user       account.User
	credential *syscall.Credential
	named      bool // User= was given
}

func identityOf(u *unit.Unit, root string) (who, error) {
	if u.User == "" && u.Group == "" && len(u.SupplementaryGroups) == 0 {
		return who{user: account.User{Name: "root", Home: "/root", Shell: "/bin/sh"}}, nil
	}
	accounts, err := account.Read(root)
	if err != nil {
		return who{}, err
	}
	w := who{user: account.User{Name: "root", Home: "/root", Shell: "/bin/sh"}, named: u.User != ""}
	if u.User != "" {
		if w.user, err = accounts.User(u.User); err != nil {
			return w, err
		}
	}
	w.credential = &syscall.Credential{Uid: w.user.UID, Gid: w.user.GID, Groups: accounts.GroupsOf(w.user.Name)}
	if u.Group != "" {
		if w.credential.Gid, err = accounts.Group(u.Group); err != nil {
			return w, err
		}
	}
	for _, g := range u.SupplementaryGroups {
		gid, err := accounts.Group(g)
		if err != nil {
			return w, err
		}
		w.credential.Groups = append(w.credential.Groups, gid)
	}
	return w, nil
}

// environment of a unit's processes.
func (v *supervised) environment(u *unit.Unit, w who, invocation string) ([]string, error) {
	env := []string{"PATH=" + searchPath, "LANG=C.UTF-8", "INVOCATION_ID=" + invocation, markVariable + "=" + v.name}
	if w.named {
		env = append(env, "USER="+w.user.Name, "LOGNAME="+w.user.Name, "HOME="+w.user.Home, "SHELL="+w.user.Shell)
	}
	env = append(env, u.Environment...)
	for _, name := range u.EnvironmentFiles {
		path, optional := strings.CutPrefix(name, "-")
		b, err := os.ReadFile(filepath.Join(v.s.config.Root, path))
		if optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("EnvironmentFile: %w", err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			key, value, ok := strings.Cut(line, "=")
			if !ok || line[0] == '#' || line[0] == ';' {
				continue
			}
			if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
				value = value[1 : len(value)-1]
			}
			env = append(env, key+"="+value)
		}
	}
	return env, nil
}

// directories are made before the start, and given to the user (systemd.exec(5)).
func (v *supervised) directories(u *unit.Unit, w who) error {
	for _, d := range u.Directories {
		path := filepath.Join(v.s.config.Root, d.Root, d.Path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if w.credential != nil {
			if err := os.Chown(path, int(w.credential.Uid), int(w.credential.Gid)); err != nil {
				return err
			}
		}
		if err := os.Chmod(path, fs.FileMode(d.Mode)); err != nil {
			return err
		}
	}
	return nil
}

func (v *supervised) removeDirectories(u *unit.Unit) {
	for _, d := range u.Directories {
		if d.Remove {
			if err := os.RemoveAll(filepath.Join(v.s.config.Root, d.Root, d.Path)); err != nil {
				v.log.Warn("directory not removed", slog.Any("error", err))
			}
		}
	}
}

// spawn starts one of a unit's commands, in a session of its own, with its output going to the unit's log.
func (v *supervised) spawn(r *running, c unit.Command, extra ...string) (*child, error) {
	u, w := r.unit, r.who
	env := append(slices.Clone(r.env), extra...)
	lookup := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- {
			if value, ok := strings.CutPrefix(env[i], name+"="); ok {
				return value
			}
		}
		return ""
	}
	argv := c.Expand(lookup)
	path := argv[0]
	if !strings.Contains(path, "/") {
		found, err := lookPath(path)
		if err != nil {
			return nil, err
		}
		path = found
	}
	if c.Argv0 != "" {
		argv = append([]string{c.Argv0}, argv[1:]...)
	}
	attr := &syscall.ProcAttr{Env: env, Dir: "/", Sys: &syscall.SysProcAttr{Setsid: true}}
	if dir, optional := strings.CutPrefix(u.WorkingDirectory, "-"); dir != "" {
		if dir == "~" {
			dir = w.user.Home
		}
		if _, err := os.Stat(dir); err == nil || !optional {
			attr.Dir = dir
		}
	}
	if !c.Privileged {
		attr.Sys.Credential = w.credential
		caps, err := capabilities(u.AmbientCapabilities)
		if err != nil {
			return nil, err
		}
		attr.Sys.AmbientCaps = caps
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	attr.Files = []uintptr{null.Fd(), write.Fd(), write.Fd()}
	started, err := v.startAs(u, path, argv, attr)
	if err != nil {
		read.Close()
		return nil, err
	}
	v.score(u, started.pid)
	go func() { // until the last process that inherited the pipe has ended
		defer read.Close()
		_, _ = io.Copy(v.output, read)
	}()
	return started, nil
}

// startAs sets the umask and the soft limits of this process, which children inherit, while it starts one.
func (v *supervised) startAs(u *unit.Unit, path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	v.s.starting.Lock()
	defer v.s.starting.Unlock()
	old := syscall.Umask(int(u.UMask))
	defer syscall.Umask(old)
	// Go raises its own limit of open files; what it had before is systemd's default, too.
	for _, l := range append([]unit.Limit{{Name: "NOFILE", Soft: defaultFiles}}, u.Limits...) {
		var had syscall.Rlimit
		if err := syscall.Getrlimit(resources[l.Name], &had); err != nil {
			v.log.Warn("limit not set", slog.String("limit", l.Name), slog.Any("error", err))
			continue
		}
		// The hard limit stays: this process could not raise its own again.
		if err := syscall.Setrlimit(resources[l.Name], &syscall.Rlimit{Cur: min(l.Soft, had.Max), Max: had.Max}); err != nil {
			v.log.Warn("limit not set", slog.String("limit", l.Name), slog.Any("error", err))
			continue
		}
		defer syscall.Setrlimit(resources[l.Name], &had) // back to what it was, which was allowed
	}
	return v.s.reaper.start(path, argv, attr)
}

// defaultFiles is the soft limit of open files (systemd-system.conf(5), DefaultLimitNOFILE).
const defaultFiles = 1024

var resources = map[string]int{"NOFILE": unix.RLIMIT_NOFILE, "NPROC": unix.RLIMIT_NPROC, "CORE": unix.RLIMIT_CORE, "MEMLOCK": unix.RLIMIT_MEMLOCK}

func lookPath(name string) (string, error) {
	for dir := range strings.SplitSeq(searchPath, ":") {
		p := filepath.Join(dir, name)
		if _, err := exec.LookPath(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("program %q is in none of %s", name, searchPath)
}

// score tells the kernel whom to kill when memory runs out, as far as it permits that.
func (v *supervised) score(u *unit.Unit, pid int) {
	if u.OOMScoreAdjust == nil {
		return
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), fmt.Append(nil, *u.OOMScoreAdjust), 0o644); err != nil {
		v.log.Warn("OOM score not set", slog.Any("error", err))
	}
}

// command runs one of a unit's commands to its end.
func (v *supervised) command(ctx context.Context, r *running, c unit.Command, extra ...string) error {
	started, err := v.spawn(r, c, extra...)
	if err == nil {
		select {
		case <-started.done:
			if s := started.status; s.Signaled() || s.ExitStatus() != 0 {
				err = &exitError{c.Argv[0], s}
			}
		case <-ctx.Done():
			v.s.reaper.signal(started, syscall.SIGKILL)
			<-started.done
			err = fmt.Errorf("%s: killed: %w", c.Argv[0], context.Cause(ctx))
		}
	}
	if err != nil && c.IgnoreFailure {
		v.log.Info("a command failed, which its unit says to ignore", slog.Any("error", err))
		return nil
	}
	return err
}

// withTimeout is a context that ends after d, or never if that is 0.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, timeoutError(d))
}
