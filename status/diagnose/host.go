package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"regiond.dev/regiond/bootstrap/datadir"
)

// How much of each log is taken from its end, in bytes, and of how many logs of pods.
const (
	logBytes    = 2 << 20
	podLogBytes = 256 << 10
	maxPodLogs  = 400
)

// programTimeout bounds each program.
const programTimeout = 10 * time.Second

// files of the host.
var files = []string{"/etc/os-release", "/proc/version", "/proc/cmdline", "/proc/uptime", "/proc/loadavg", "/proc/meminfo", "/proc/mounts", "/proc/net/dev", "/proc/pressure/io", "/proc/pressure/memory"}

// programs of the host. None prints arguments of processes or environments, which are not ours to know.
var programs = map[string][]string{
	"ip-address.txt": {"ip", "-details", "address"},
	"ip-route.txt":   {"ip", "route", "show", "table", "all"},
	"listening.txt":  {"ss", "--listening", "--numeric", "--processes", "--tcp", "--udp"},
	"nft-tables.txt": {"nft", "list", "tables"},
	"processes.txt":  {"ps", "-e", "--sort=-rss", "--format=pid,ppid,stat,etimes,rss,comm"},
	"unit.txt":       {"systemctl", "status", "--no-pager", "--lines=0", "regiond.service"},
	"kernel.txt":     {"dmesg", "--ctime", "--level=emerg,alert,crit,err,warn"},
}

func (b *bundle) host(ctx context.Context) {
	for _, f := range files {
		content, err := tail(f, logBytes)
		if err != nil {
			b.missing(f, err)
			continue
		}
		b.add("host"+f, content)
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		out, err := b.run(ctx, programs[name])
		if err != nil {
			b.missing("host/"+name, err)
		}
		if len(out) > 0 {
			b.add("host/"+name, out[max(0, len(out)-logBytes):])
		}
	}
	b.dataDir()
}

func (b *bundle) run(ctx context.Context, command []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	out, err := b.Run(ctx, command[0], command[1:]...)
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return out, err
}

// dataDir is the space on its file system, and which entries it has with their modes and sizes.
func (b *bundle) dataDir() {
	var out bytes.Buffer
	var st syscall.Statfs_t
	if err := syscall.Statfs(b.DataDir, &st); err != nil {
		b.missing("data-directory.txt", err)
		return
	}
	fmt.Fprintf(&out, "%s: %d MiB free of %d\n", b.DataDir, st.Bavail*uint64(st.Bsize)>>20, st.Blocks*uint64(st.Bsize)>>20)
	entries, err := os.ReadDir(b.DataDir)
	if err != nil {
		b.missing("data-directory.txt", err)
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintf(&out, "%s %12d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), e.Name())
		}
	}
	b.add("data-directory.txt", out.Bytes())
}

// logs of the control plane, and of pods if it is known what to remove from them.
func (b *bundle) logs(known bool) {
	root := datadir.Log.In(b.DataDir)
	all, err := filepath.Glob(filepath.Join(root, "*.log"))
	if err != nil || len(all) == 0 {
		b.missing("logs", errors.Join(err, fmt.Errorf("%s has none", root)))
	}
	for _, f := range all {
		b.log(f, "logs/"+filepath.Base(f), logBytes)
	}
	if !known {
		return
	}
	pods, err := filepath.Glob(filepath.Join(root, "pods", "*", "*", "*.log"))
	if err != nil {
		b.missing("logs of pods", err)
	}
	for i, f := range pods {
		if i == maxPodLogs {
			b.missing("logs of pods", fmt.Errorf("%d of %d are left out", len(pods)-maxPodLogs, len(pods)))
			break
		}
		b.log(f, "logs/pods/"+strings.TrimPrefix(f, filepath.Join(root, "pods")+"/"), podLogBytes)
	}
}

func (b *bundle) log(file, name string, most int64) {
	content, err := tail(file, most)
	if err != nil {
		b.missing(name, err)
		return
	}
	b.add(name, content)
}

// tail of a file, from the beginning of a line on: a secret that is cut in two would not be found.
func tail(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: file, Err: errors.New("it is not a regular file")}
	}
	from := max(0, info.Size()-most)
	content, err := io.ReadAll(io.LimitReader(io.NewSectionReader(f, from, 1<<62), most))
	if from > 0 {
		_, content, _ = bytes.Cut(content, []byte("\n"))
	}
	return content, err
}
