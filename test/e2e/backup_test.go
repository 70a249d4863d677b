//go:build e2e

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"regiond.dev/regiond/bootstrap/backup"
	"regiond.dev/regiond/test/lab"
)

// What is allowed in the lab.
const (
	backupLimit  = time.Minute
	restoreLimit = 10 * time.Minute
)

// TestBackup loses the seed host with its disks while guests run, and restores it from a backup: the
// region is the same, the guests never stopped, and what came after the backup is lost.
func TestBackup(t *testing.T) {
	l := NewLab(t, *regiond, "b")
	l.Wait(l.Up("--config", l.Write(twoNodes)))
	l.VM("create", "vm1", "vm2")
	assertGuests(l, "vm1", "vm2")
	l.Seed("regiond", "openstack", "--", "user", "create", "--password", "witness", "witness")

	keys := newKeys(t)
	name := l.backUp(keys)
	before := l.witnesses()
	l.Seed("regiond", "openstack", "--", "user", "create", "--password", "late", "too-late")
	file := filepath.Join(l.dir(), "backups", name)
	if out := l.Run("backup", "verify", file, "--identity", keys.private, "--databases"); !strings.Contains(out, "databases of OpenStack cluster lab: restored") {
		t.Errorf("verify: got %s, want that the databases were restored", out)
	}
	l.refusals(keys, name)

	vm1, vm2 := l.guest("vm1"), l.guest("vm2")
	l.haltSeed()
	wipe(t, filepath.Join(l.dir(), "seed"))
	l.pingEachOtherWithoutSeed(vm1, vm2)

	started := time.Now()
	l.killedRestore(keys, name)
	if out, err := l.restore(keys.private, name).CombinedOutput(); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	t.Logf("restored %.0f s after the start, killed once", time.Since(started).Seconds())
	l.Wait(l.Up())
	l.AwaitOpenStack(restoreLimit)
	took := time.Since(started)
	t.Logf("all gates passed %.0f s after the start of the restore (at most %.0f wanted)", took.Seconds(), restoreLimit.Seconds())
	if took > restoreLimit {
		t.Errorf("restored in %s, want at most %s", took, restoreLimit)
	}

	if d := different(before, l.witnesses()); len(d) > 0 {
		t.Errorf("not as before: got %v, want nothing", d)
	}
	users := l.names("user", "list")
	if !slices.Contains(users, "witness") || slices.Contains(users, "too-late") {
		t.Errorf("got users %v, want witness and not too-late: it came after the backup", users)
	}
	l.VM("ping", "vm1", "vm2")
	l.VM("ping", "vm2", "vm1")
	l.VM("create", "vm3")
	l.VM("ping", "vm3", "vm1")
}

// keys of a recipient.
type keys struct{ public, private string }

func newKeys(t *testing.T) keys {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup.key")
	if err := os.WriteFile(file, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return keys{public: id.Recipient().String(), private: file}
}

// dir of the lab, which the seed host sees as /run/lab.
func (l *Lab) dir() string { return filepath.Join(lab.DefaultRoot, l.name) }

// backUp the seed host and return the backup's name.
func (l *Lab) backUp(k keys) string {
	l.Helper()
	started := time.Now()
	out := l.Seed("regiond", "backup", "create", "--destination", "/run/lab/backups", "--recipient", k.public, "-o", "json")
	took := time.Since(started)
	made := decode[backup.Result](l, out)
	l.Logf("backed up in %.1f s (at most %.0f wanted): %d bytes", took.Seconds(), backupLimit.Seconds(), made.Size)
	if took > backupLimit {
		l.Errorf("backed up in %s, want at most %s", took, backupLimit)
	}
	return made.Name
}

// witnesses are what must be the same after a restore: objects and their UIDs, boots of hosts, and
// the processes of their services.
func (l *Lab) witnesses() map[string]string {
	l.Helper()
	all := l.column("openstack-lab", "deployments,statefulsets", ".metadata.uid")
	for name, uid := range l.column("", "hosts,openstackclusters,regions", ".metadata.uid") {
		all[name] = uid
	}
	for _, node := range []string{"n1", "n2"} {
		all["boot of "+node] = l.Host(node).Status.BootID
		for service, process := range l.processes(node) {
			all[node+" "+service] = process
		}
	}
	for _, g := range l.Guests() {
		all["guest "+g.Name] = fmt.Sprintf("%+v", g)
	}
	return all
}

func (l *Lab) names(args ...string) (names []string) {
	l.Helper()
	for _, o := range l.OpenStack(args...) {
		names = append(names, fmt.Sprint(o["Name"]))
	}
	return names
}

// refusals of a restore over the region that runs, and with another key.
func (l *Lab) refusals(k keys, name string) {
	l.Helper()
	for want, private := range map[string]string{"a backup is not restored over a live region": k.private, "encrypted to other keys": newKeys(l.T).private} {
		b, err := os.ReadFile(private)
		if err != nil {
			l.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(l.dir(), "backup.key"), b, 0o600); err != nil {
			l.Fatal(err)
		}
		out, err := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "backup", "restore", "/run/lab/backups/"+name,
			"--identity", "/run/lab/backup.key", "--yes").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 6 || !strings.Contains(string(out), want) {
			l.Errorf("got %v: %s; want exit status 6 and %q", err, out, want)
		}
	}
	if err := os.Remove(filepath.Join(l.dir(), "backup.key")); err != nil {
		l.Error(err)
	}
}

// wipe what is in a folder.
func wipe(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// restore a backup where the seed host will be: with its name, its data directory and its files.
func (l *Lab) restore(private, name string) *exec.Cmd {
	const script = `set -e
hostname seed
mount -t tmpfs tmpfs /mnt
mkdir /mnt/lab
mount --bind "$1" /mnt/lab
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
mkdir /var/lib/regiond /run/lab
mount --bind /mnt/lab/seed /var/lib/regiond
mount --bind /mnt/lab /run/lab
exec "$2" backup restore "/run/lab/backups/$4" --identity "$3" --yes`
	c := exec.Command("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", script, "restore", l.dir(), l.regiond, private, name)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// killedRestore begins a restore and kills it while the databases are made.
func (l *Lab) killedRestore(k keys, name string) {
	l.Helper()
	c := l.restore(k.private, name)
	out, err := c.StderrPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := c.Start(); err != nil {
		l.Fatal(err)
	}
	var said []string
	s := bufio.NewScanner(out)
	for s.Scan() {
		if said = append(said, s.Text()); strings.Contains(s.Text(), "restoring openstack") {
			break
		}
	}
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil {
		l.Fatalf("kill the restore: %v; it said %q", err, said)
	}
	_, _ = io.Copy(io.Discard, out) // until it has ended
	if err := c.Wait(); err == nil {
		l.Fatalf("the restore ended well before it was killed: %q", said)
	}
	if _, err := os.Stat(filepath.Join(l.dir(), "seed", "restore.json")); err != nil {
		l.Errorf("after the kill: %v; want the mark of a restore that has not ended", err)
	}
}
