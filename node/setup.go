package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/node/apply"
)

// SetupConfig of Setup. The zero value of Run and SetHostname is that of a real system.
type SetupConfig struct {
	// Root of the file system, / on a real system.
	Root string
	// Run executes a program.
	Run func(ctx context.Context, name string, args ...string) error
	// SetHostname sets the kernel's host name.
	SetHostname func(string) error
	Log         *slog.Logger
}

// Setup configures the host from its identity, before the network comes up.
func Setup(ctx context.Context, c SetupConfig) error {
	if c.Run == nil {
		c.Run = run
	}
	if c.SetHostname == nil {
		c.SetHostname = func(name string) error { return syscall.Sethostname([]byte(name)) }
	}
	id, err := ReadIdentity(filepath.Join(c.Root, identity.MountPoint, identity.File))
	if err != nil {
		return err
	}
	dir := filepath.Join(c.Root, NetworkDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	for _, f := range RenderNetwork(id.Network) {
		if err := atomicfile.Write(filepath.Join(dir, f.Name), []byte(f.Content), 0o644); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
		c.Log.Info("network file written", slog.String("file", f.Name))
	}
	// Before anything starts that reads them. Nothing here may keep the network from coming up: the agent tries again, and says so.
	applier, err := apply.New(apply.Config{Root: c.Root, DataDir: filepath.Join(c.Root, identity.MountPoint), Log: c.Log})
	if err == nil {
		err = applier.Restore()
	}
	if err != nil {
		c.Log.Error("files of the configuration not restored", slog.Any("error", err))
	}
	if err := c.SetHostname(id.Hostname); err != nil {
		return fmt.Errorf("setup: set host name %q: %w", id.Hostname, err)
	}
	// For systemd-hostnamed; the root file system may be read-only, and the kernel's name is what counts.
	etc := filepath.Join(c.Root, "etc/hostname")
	if have, err := os.ReadFile(etc); err != nil || strings.TrimSpace(string(have)) != id.Hostname {
		if err := atomicfile.Write(etc, []byte(id.Hostname+"\n"), 0o644); err != nil {
			c.Log.Warn("host name not kept in /etc", slog.Any("error", err))
		}
	}
	// Interfaces that udev has named before the .link files were there are named again.
	for _, args := range [][]string{{"control", "--reload"}, {"trigger", "--action=add", "--subsystem-match=net", "--settle"}} {
		if err := c.Run(ctx, "udevadm", args...); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
	}
	c.Log.Info("host configured", slog.String("host", id.Hostname), slog.String("server", id.ServerUID))
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

var (
	hostname      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123 section 2.1
	interfaceName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,15}$`)               // IFNAMSIZ
)

// ReadIdentity reads what the installer left and checks what is used as a name.
func ReadIdentity(path string) (identity.Identity, error) {
	var id identity.Identity
	b, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return id, fmt.Errorf("identity: %w; this system was not installed by regiond, or its data partition is not mounted", err)
		}
		return id, fmt.Errorf("identity: %w", err)
	}
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("identity %s: %w; install the server again", path, err)
	}
	if !hostname.MatchString(id.Hostname) {
		return id, fmt.Errorf("identity %s: hostname %q is not a DNS label", path, id.Hostname)
	}
	var names []string
	for _, i := range id.Network.Interfaces {
		names = append(names, i.Name)
	}
	for _, b := range id.Network.Bonds {
		names = append(names, b.Name)
	}
	for _, n := range names {
		if !interfaceName.MatchString(n) || n == "." || n == ".." {
			return id, fmt.Errorf("identity %s: interface name %q is not valid: want 1 to 15 letters, digits, '_', '-', '.'", path, n)
		}
	}
	return id, nil
}
