// Package render measures how long the configuration of compute hosts takes: regiond's renderer
// beside Debian's ansible, which renders the same files of the templates that regiond translated
// for it.
package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/region"
)

// Figures of one run.
type Figures struct {
	// Nodes that regiond rendered, and Files of all of them, each written aside and put in place.
	Nodes, Files int
	Elapsed      time.Duration
	// Early and Late are the resident memory in bytes after a tenth of the nodes and after all of them.
	Early, Late int64
	// AnsibleNodes were rendered by ansible-playbook, with connection local and a fork for each processor.
	AnsibleNodes   int
	AnsibleElapsed time.Duration
}

// Ratio says how many times faster a node is rendered.
func (f Figures) Ratio() float64 {
	own, theirs := f.Elapsed.Seconds()/float64(f.Nodes), f.AnsibleElapsed.Seconds()/float64(f.AnsibleNodes)
	return theirs / own
}

// Growth of the memory between a tenth of the nodes and all, 1 for none.
func (f Figures) Growth() float64 { return float64(f.Late) / float64(f.Early) }

// Measure renders so many nodes below a folder by regiond, and so many by ansible. It ends with an error if their files differ.
func Measure(ctx context.Context, dir string, nodes, ansibleNodes int) (Figures, error) {
	f := Figures{Nodes: nodes, AnsibleNodes: ansibleNodes}
	source, err := configgen.Load(configgen.Templates{Name: templates.Name, FS: templates.FS})
	if err != nil {
		return f, err
	}
	cluster, list := declare(nodes)
	if err := f.own(source, cluster, list, filepath.Join(dir, "regiond")); err != nil {
		return f, err
	}
	theirs := filepath.Join(dir, "ansible")
	if err := f.ansible(ctx, source, cluster, list[:ansibleNodes], theirs); err != nil {
		return f, err
	}
	for _, n := range list[:ansibleNodes] {
		for _, p := range source.FilesOf(configgen.RoleCompute) {
			a, errA := os.ReadFile(filepath.Join(dir, "regiond", n.Name, p))
			b, errB := os.ReadFile(filepath.Join(theirs, "out", n.Name, p))
			if err := errors.Join(errA, errB); err != nil {
				return f, err
			}
			if !bytes.Equal(a, b) {
				return f, fmt.Errorf("%s of %s differs between regiond and ansible", p, n.Name)
			}
		}
	}
	return f, nil
}

// declare makes a cluster whose nodes each have a value and an option of their own. Secrets are placeholders.
func declare(nodes int) (configgen.Cluster, []configgen.Node) {
	d := &region.OpenStackDeclaration{Name: "bench", Release: region.ReleaseEpoxy, Address: "10.99.0.1",
		PhysicalNetworks: []region.PhysicalNetwork{{Name: "physnet1", Interface: "data0", VLANs: "100-199"}}}
	list := make([]configgen.Node, nodes)
	for i := range list {
		list[i] = configgen.Node{Name: fmt.Sprintf("node%04d", i), Address: fmt.Sprintf("10.99.%d.%d", i/250, 2+i%250)}
		values := fmt.Sprintf(`{"nova": {"conf": {"DEFAULT": {"reserved_host_memory_mb": %d}}}}`, 512+i)
		d.Nodes = append(d.Nodes, region.OpenStackNodeValues{Name: list[i].Name, Values: &apiruntime.RawExtension{Raw: []byte(values)}})
	}
	return configgen.Cluster{Declaration: d, Region: "bench"}, list
}

func (f *Figures) own(source *configgen.Source, cluster configgen.Cluster, list []configgen.Node, dir string) error {
	folder, err := configgen.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	v, _, err := source.Values(cluster)
	if err != nil {
		return err
	}
	start := time.Now()
	for i, n := range list {
		conf, _, err := source.Node(v, n)
		if err != nil {
			return err
		}
		for _, file := range conf.Files {
			if err := folder.Write(configgen.Output{Name: n.Name + file.Path, Content: []byte(file.Content)}); err != nil {
				return err
			}
			f.Files++
		}
		if i == len(list)/10 {
			if f.Early, err = resident(); err != nil {
				return err
			}
		}
	}
	f.Elapsed = time.Since(start)
	f.Late, err = resident()
	return err
}

// resident memory of this process in bytes (proc_pid_statm(5)).
func resident() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/self/statm: %q", b)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

func (f *Figures) ansible(ctx context.Context, source *configgen.Source, cluster configgen.Cluster, list []configgen.Node, dir string) error {
	folder, err := configgen.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := source.Ansible(cluster, list, folder.Write); err != nil {
		return err
	}
	local := "[all:vars]\nansible_connection=local\nansible_python_interpreter=/usr/bin/python3\n" +
		"openstack_root=" + dir + "/out/{{ inventory_hostname }}\n"
	if err := folder.Write(configgen.Output{Name: "local.ini", Content: []byte(local)}); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "ansible-playbook", "-i", "inventory.yaml", "-i", "local.ini",
		"--forks", strconv.Itoa(runtime.NumCPU()), "playbook.yaml")
	cmd.Dir = dir
	temp := filepath.Join(dir, "tmp")
	cmd.Env = append(os.Environ(), "ANSIBLE_PIPELINING=1", "ANSIBLE_LOCAL_TEMP="+temp, "ANSIBLE_REMOTE_TEMP="+temp)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ansible-playbook (Debian's package ansible-core): %w\n%s", err, out)
	}
	f.AnsibleElapsed = time.Since(start)
	return nil
}
