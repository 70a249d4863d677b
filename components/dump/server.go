package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 5 * time.Minute // it writes what is in memory to the disk
	pollInterval = 100 * time.Millisecond
)

// server is a MariaDB of its own that nothing else reaches: no network, a socket in its folder. It
// makes databases of a dump.
type server struct {
	// root of the file system with MariaDB's programs: that of an image, or / for this host's.
	root string
	// dir is the folder of this server, below root, and data that of the databases in it.
	dir string
	// user it runs as, by number, and by the name that is the superuser at the socket.
	user      uint32
	superuser string

	process *exec.Cmd
	said    *tail
	ended   chan error
}

func (s *server) socket() string { return filepath.Join(s.dir, "socket") }

// data is the path of the databases as this process sees it.
func (s *server) data() string { return filepath.Join(s.root, s.dir, "data") }

// command is a program of the image, as its user. It ends with this process.
func (s *server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.Path, c.Err = program, nil // not looked for outside of root
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.dir, "TMPDIR=" + s.dir}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: s.root, Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: s.user, Gid: s.user}}
	return c
}

// start the server on a new, empty data folder.
func (s *server) start(ctx context.Context) error {
	dir := filepath.Join(s.root, s.dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chown(dir, int(s.user), int(s.user)); err != nil {
		return err
	}
	install := s.command(ctx, "/usr/bin/mariadb-install-db", "--no-defaults", "--datadir="+filepath.Join(s.dir, "data"),
		"--auth-root-authentication-method=socket", "--auth-root-socket-user="+s.superuser, "--skip-test-db", "--skip-name-resolve",
		"--force") // without looking up this host's name, which the image's file system does not know
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("create a database: %w: %s", err, last(out))
	}
	return s.run(ctx)
}

// run the server on the data folder that is there.
func (s *server) run(ctx context.Context) error {
	s.said, s.ended = &tail{}, make(chan error, 1)
	// Nothing of it is used if the machine dies meanwhile, so that nothing is synced before the end.
	s.process = s.command(context.WithoutCancel(ctx), "/usr/sbin/mariadbd", "--no-defaults", "--datadir="+filepath.Join(s.dir, "data"), "--socket="+s.socket(),
		"--pid-file="+filepath.Join(s.dir, "pid"), "--tmpdir="+s.dir, "--skip-networking", "--skip-log-bin", "--max-allowed-packet=64M",
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci", "--innodb-flush-log-at-trx-commit=0", "--performance-schema=off")
	s.process.Stderr = s.said
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	go func() { s.ended <- s.process.Wait() }()
	if err := s.await(ctx); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		if s.client(ctx, "mariadb-admin", "ping").Run() == nil {
			return nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("MariaDB ended: %w: %s", err, s.said)
		case <-ctx.Done():
			return fmt.Errorf("MariaDB does not answer: %w: %s", context.Cause(ctx), s.said)
		case <-t.C:
		}
	}
}

// client is a program that is connected as the superuser.
func (s *server) client(ctx context.Context, program string, args ...string) *exec.Cmd {
	return s.command(ctx, "/usr/bin/"+program, append([]string{"--no-defaults", "--socket=" + s.socket(), "--default-character-set=utf8mb4"}, args...)...)
}

// load a dump.
func (s *server) load(ctx context.Context, content io.Reader) error {
	c := s.client(ctx, "mariadb", "--max-allowed-packet=64M")
	said := &tail{}
	c.Stdin, c.Stderr = content, said
	if err := c.Run(); err != nil {
		return fmt.Errorf("load the dump: %w: %s", err, said)
	}
	return nil
}

// summary of what the server has, read as it was for the backup.
func (s *server) summary(ctx context.Context) (Summary, error) {
	databases, err := s.client(ctx, "mariadb", "--batch", "--skip-column-names", "--execute",
		"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')").Output()
	if err != nil {
		return nil, fmt.Errorf("list the databases: %w", err)
	}
	names := strings.Fields(string(databases))
	if len(names) == 0 {
		return Summary{}, nil
	}
	c := s.client(ctx, "mariadb-dump", append(append(strings.Fields(dumpFlags), "--databases"), names...)...)
	read, said := newReader(), &tail{}
	c.Stdout, c.Stderr = read, said
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("read back the databases: %w: %s", err, said)
	}
	return read.result()
}

// stop the server. What it has is on the disk then.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("MariaDB did not stop well: %w: %s", err, s.said)
		}
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("MariaDB did not stop within %s", stopTimeout), s.kill())
	}
}

func (s *server) kill() error {
	err := s.process.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-s.ended
	return err
}

// last lines of a program's output.
func last(out []byte) string {
	t := &tail{}
	_, _ = t.Write(out) // does not fail
	return t.String()
}
