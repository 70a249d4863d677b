package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/test/lab/namespace"
)

// Files of a lab, below its folder.
const (
	fileLab         = "lab.json"
	fileRegion      = "region.yaml"
	fileCredentials = "secrets/bmc.yaml"
	dirSeed         = "seed" // the seed host's data directory
	dirLog          = "log"
)

func (l Lab) dir() string             { return filepath.Join(l.Root, l.Name) }
func (l Lab) file(name string) string { return filepath.Join(l.dir(), name) }

// seed and hardware are the two network namespaces of a lab: the seed host, and everything that
// it reaches by cable.
func (l Lab) seed() namespace.Namespace     { return namespace.Namespace{Name: "rl-" + l.Name + "-seed"} }
func (l Lab) hardware() namespace.Namespace { return namespace.Namespace{Name: "rl-" + l.Name + "-hw"} }

// cgroup of the seed host's processes, below the root of every hierarchy.
func (l Lab) cgroup() string { return "regiond-lab-" + l.Name }

// Open finds a lab that was brought up.
func Open(root, name string) (Lab, error) {
	if err := CheckName(name); err != nil {
		return Lab{}, err
	}
	l := Lab{Name: name, Root: root}
	b, err := os.ReadFile(l.file(fileLab))
	if errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("no lab %q in %s: `regiond lab up --lab %s` makes it", name, root, name)
	}
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(b, &l.Spec); err != nil {
		return l, fmt.Errorf("%s: %w", l.file(fileLab), err)
	}
	return l, nil
}

// List the names of labs in root.
func List(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", fileLab))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	slices.Sort(names)
	return names, nil
}

// writeFile replaces a file of the lab whole or not at all.
func (l Lab) writeFile(name string, data []byte) error {
	file := l.file(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, data, 0o600)
}

// A process of the lab is known by its pid and by when it started (in clock ticks since boot,
// proc(5), stat field 22): a pid alone may belong to somebody else by now.
type pidFile struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, the name, may hold spaces: fields are counted from behind it.
	rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
	f := strings.Fields(rest)
	if len(f) < 20 || f[0] == "Z" {
		return "", fs.ErrNotExist
	}
	return f[19], nil
}

func (l Lab) recordProcess(name string, pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("%s ended at once, see %s", name, l.file(filepath.Join(dirLog, name+".log")))
	}
	b, err := json.Marshal(pidFile{PID: pid, Start: start})
	if err != nil {
		return err
	}
	return l.writeFile(name+".pid", b)
}

// process returns the pid of one of the lab's own processes, 0 when it does not run.
func (l Lab) process(name string) (int, error) {
	b, err := os.ReadFile(l.file(name + ".pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var p pidFile
	if err := json.Unmarshal(b, &p); err != nil {
		return 0, fmt.Errorf("%s: %w", l.file(name+".pid"), err)
	}
	if start, err := startTime(p.PID); err != nil || start != p.Start {
		return 0, nil
	}
	return p.PID, nil
}

// namespaceArgs is the command line by which nsenter(1) enters the namespaces of one of the lab's processes.
func (l Lab) namespaceArgs(process string) ([]string, error) {
	pid, err := l.process(process)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("lab %s: %s does not run: `regiond lab up --lab %s` starts it again", l.Name, process, l.Name)
	}
	return []string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup"}, nil
}
