//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/test/lab"
)

var regiond = flag.String("regiond", "", "the regiond binary")

// TestRegion is the way of a region from nothing to Ready, and what may go wrong on that way.
func TestRegion(t *testing.T) {
	l := NewLab(t, *regiond, "")
	before := leftovers(t, l)

	t.Run("from nothing to Ready", func(t *testing.T) {
		l := l.on(t)
		u := l.Up("--config", l.Write(oneServer))
		l.Wait(u)
		assertStages(t, u.Lines())
		if s := l.Status(); s.ControlPlane != "Ready" || !s.Machines[0].Ready {
			t.Fatalf("status: %+v", s)
		}
		assertInstalled(l)
	})
	if t.Failed() {
		return
	}
	t.Run("a second lab up changes nothing", func(t *testing.T) {
		l := l.on(t)
		pid, boot := l.PID("regiond run"), l.host("bootID")
		l.Wait(l.Up())
		if l.PID("regiond run") != pid || l.host("bootID") != boot {
			t.Error("something was started again")
		}
	})
	t.Run("killed components come back", func(t *testing.T) {
		l := l.on(t)
		l.Seed("regiond", "kubectl", "create", "configmap", "kept", "--from-literal=a=b")
		for _, c := range []string{"kube-scheduler", "kube-controller-manager", "kube-proxy", "kubelet", "containerd", "kube-apiserver", "etcd"} {
			pid := l.PID(c)
			l.Kill(c)
			l.Eventually(c+" is started again", time.Minute, func() (bool, string) {
				now := l.PID(c)
				return now != 0 && now != pid, fmt.Sprint("pid ", now)
			})
			l.ready(t, 2*time.Minute)
		}
		if got := l.Seed("regiond", "kubectl", "get", "configmap", "kept", "-o", "jsonpath={.data.a}"); got != "b" {
			t.Errorf("the ConfigMap holds %q", got)
		}
	})
	t.Run("regiond killed and power cut while the image is written", func(t *testing.T) {
		l := l.on(t)
		boot := l.host("bootID")
		server := l.Status().Machines[0].Server
		now := time.Now().UTC()
		l.Seed("regiond", "kubectl", "patch", "server", server, "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"reinstallAfter":%q,"takeoverUntil":%q}}`, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
		stage := func() string {
			return l.Seed("regiond", "kubectl", "get", "server", server, "-o", "jsonpath={.status.installation.stage} {.status.installation.bytesWritten}")
		}
		writing := func() (bool, string) {
			s := stage()
			return strings.HasPrefix(s, "Writing ") && s != "Writing ", s
		}
		l.Eventually("the image is being written", 8*time.Minute, writing)
		l.Kill("regiond run")
		l.ready(t, 2*time.Minute)
		l.Eventually("the image is still being written, or was", 5*time.Minute, func() (bool, string) {
			s := stage()
			return strings.HasPrefix(s, "Writing") || strings.HasPrefix(s, "Installed"), s
		})
		l.Run("lab", "power", "--lab", l.name, "node1", "off")
		l.Eventually("the server is Ready again, from another boot", 12*time.Minute, func() (bool, string) {
			s := l.Status().Machines[0]
			return s.Ready && l.host("bootID") != boot, fmt.Sprintf("%+v, stage %s", s, stage())
		})
		assertInstalled(l)
	})
	t.Run("lab down leaves nothing", func(t *testing.T) {
		l := l.on(t)
		l.Down()
		for _, f := range leftovers(t, l) {
			if !slices.Contains(before, f) {
				t.Error(f)
			}
		}
	})
}

// TestBIOS: a server without UEFI and with two disks. While both disks fit the profile neither is
// written to; when the profile names one the server is installed by itself.
func TestBIOS(t *testing.T) {
	l := NewLab(t, *regiond, "bios")
	u := l.Up("--config", l.Write("spec: {machines: [{name: old1, firmware: BIOS, disks: [12Gi, 14Gi]}]}"))
	l.AwaitLine(u, string(lab.StageControlPlane), 3*time.Minute)
	region := strings.TrimSpace(l.Seed("regiond", "kubectl", "get", "regions", "-o", "name"))
	profile := l.Seed("regiond", "kubectl", "get", region, "-o", "jsonpath={.spec.hardware.profiles[0].rootDisk.serialNumber}")
	rootDisk := func(selector string) {
		l.Seed("regiond", "kubectl", "patch", region, "--type=json", "-p", `[{"op":"replace","path":"/spec/hardware/profiles/0/rootDisk","value":`+selector+`}]`)
	}
	rootDisk(`{"minSize":"10G"}`)
	l.Eventually("both disks are refused", 6*time.Minute, func() (bool, string) {
		m := l.Status().Machines[0].Message
		return strings.HasPrefix(m, "DiskNotSelected: ") && strings.Count(m, ": fits") == 2, m
	})
	rootDisk(fmt.Sprintf(`{"serialNumber":%q}`, profile))
	l.Wait(u)
	assertInstalled(l)
}

// TestTwoLabs: labs of two people on one machine do not see each other.
func TestTwoLabs(t *testing.T) {
	a, b := NewLab(t, *regiond, "a"), NewLab(t, *regiond, "b")
	ua, ub := a.Up("--config", a.Write(oneServer)), b.Up("--config", b.Write(oneServer))
	for _, x := range []struct {
		l *Lab
		u *Up
	}{{a, ua}, {b, ub}} {
		x.l.AwaitLine(x.u, string(lab.StageControlPlane), 3*time.Minute)
		if err := x.u.cmd.Process.Kill(); err != nil { // not waiting for servers; the lab runs on
			t.Fatal(err)
		}
	}
	a.Seed("regiond", "kubectl", "create", "namespace", "of-a")
	if out := b.Seed("regiond", "kubectl", "get", "namespaces", "-o", "name"); strings.Contains(out, "of-a") {
		t.Error("b sees what was made in a")
	}
	a.Down()
	b.ready(t, time.Minute)
}

// on makes a subtest's own view of the lab, so that failures are the subtest's.
func (l *Lab) on(t *testing.T) *Lab { return &Lab{T: t, regiond: l.regiond, name: l.name} }

func (l *Lab) ready(t *testing.T, timeout time.Duration) {
	t.Helper()
	l.Eventually("control plane", timeout, func() (bool, string) {
		s := l.Status()
		return s.ControlPlane == "Ready", s.ControlPlane
	})
}

// host reads a field of the first server's Host.
func (l *Lab) host(field string) string {
	l.Helper()
	return l.Seed("regiond", "kubectl", "get", "host", l.Status().Machines[0].Server, "-o", "jsonpath={.status."+field+"}")
}

// assertStages: every stage was shown, in order, each once.
func assertStages(t *testing.T, lines []string) {
	t.Helper()
	at := -1
	for _, stage := range append([]lab.Stage{lab.StageControlPlane}, lab.ServerStages...) {
		var found []int
		for i, line := range lines {
			if strings.Contains(line, string(stage)) && (stage != lab.StageReady || strings.HasSuffix(line, ": Ready")) {
				found = append(found, i)
			}
		}
		if len(found) != 1 || found[0] <= at {
			t.Fatalf("stage %q: in lines %v of\n%s", stage, found, strings.Join(lines, "\n"))
		}
		at = found[0]
	}
}

// assertInstalled: the system that runs was installed by regiond, and it runs from its own disk.
func assertInstalled(l *Lab) {
	l.Helper()
	server := l.Status().Machines[0].Server
	image := l.Seed("regiond", "kubectl", "get", "server", server, "-o", "jsonpath={.status.installation.image}")
	if got := l.host("image"); image == "" || got != image {
		l.Errorf("the host runs image %q, installed was %q", got, image)
	}
	if slot := l.host("slot"); slot != "A" {
		l.Errorf("the host runs from slot %q", slot)
	}
	if got := l.Seed("regiond", "kubectl", "get", "server", server, "-o", "jsonpath={.status.power}"); got != "On" {
		l.Errorf("power %q", got)
	}
}

// leftovers are what a lab could leave behind: things that carry its name, and what Kubernetes'
// components make in places of their own.
func leftovers(t *testing.T, l *Lab) (found []string) {
	t.Helper()
	for _, c := range []string{"ip netns list", "cat /proc/self/mounts", "ps -eo args"} {
		f := strings.Fields(c)
		out, err := exec.Command(f[0], f[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, l.name) {
				found = append(found, c+": "+line)
			}
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		filepath.Join(lab.DefaultRoot, l.name), "/sys/fs/cgroup/regiond-lab-" + l.name, "/sys/fs/cgroup/*/regiond-lab-" + l.name,
		"/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*",
		filepath.Join(home, ".kube"), "/var/lib/kubelet", "/var/lib/cni", "/etc/cni", "/var/log/pods", "/var/log/containers",
	} {
		files, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	return found
}
