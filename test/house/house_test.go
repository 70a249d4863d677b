package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "regiond.dev/regiond"

// pkg is a package as `go list -json` describes it.
type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	GoFiles    []string
	Imports    []string
	Deps       []string
	// ForTest is set for the packages of a test.
	ForTest string
	Error   *struct{ Err string }
}

// room is the import path of a package without the module's and, of a test's package, without what
// `go list` adds: "hardware/bmc" for "regiond.dev/regiond/hardware/bmc
// [regiond.dev/regiond/hardware/bmc.test]".
func (p pkg) room() string {
	name, _, _ := strings.Cut(p.ImportPath, " ")
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".test"), "_test")
	return strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
}

// all lists every package of the module with its tests, those of all build tags among them, once.
var all = sync.OnceValues(func() ([]pkg, error) {
	out, err := exec.Command("go", "env", "GOFLAGS").Output()
	if err != nil {
		return nil, err
	}
	tags := "-tags=integration,envtest,e2e"
	for _, f := range strings.Fields(string(out)) {
		if set, ok := strings.CutPrefix(f, "-tags="); ok {
			tags += "," + set
		}
	}
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-test", tags, "-json=ImportPath,Name,Doc,GoFiles,Imports,Deps,ForTest,Error", module+"/...")
	cmd.Stderr = &stderr
	if out, err = cmd.Output(); err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	var packages []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	list, err := all()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if len(list) < 50 {
		t.Fatalf("go list found %d packages only", len(list))
	}
	for _, p := range list {
		if p.Error != nil {
			t.Fatalf("%s: %s", p.ImportPath, p.Error.Err)
		}
	}
	return list
}

// below tells whether an import path is a package or lies under it.
func below(importPath, of string) bool {
	return importPath == of || strings.HasPrefix(importPath, of+"/")
}

// find returns the program's own package.
func find(t *testing.T, room string) pkg {
	t.Helper()
	list := packages(t)
	i := slices.IndexFunc(list, func(p pkg) bool { return p.ImportPath == module+"/"+room })
	if i < 0 {
		t.Fatalf("there is no package %s", room)
	}
	return list[i]
}

// Kubernetes takes minutes to compile and a gigabyte to link: one binary has it, and no test.
func TestKubernetesIsLinkedOnce(t *testing.T) {
	allowed := []string{"bootstrap/kube", "cmd/regiond"}
	for _, p := range packages(t) {
		for _, d := range p.Deps {
			if below(d, "k8s.io/kubernetes") && (!slices.Contains(allowed, p.room()) || p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test")) {
				t.Errorf("%s depends on %s; only %v may, and no test", p.ImportPath, d, allowed)
				break
			}
		}
	}
	// The rule must not hold because nothing has Kubernetes.
	if !slices.ContainsFunc(find(t, "cmd/regiond").Deps, func(d string) bool { return below(d, "k8s.io/kubernetes") }) {
		t.Error("regiond does not carry Kubernetes")
	}
}

// Firmware loads the installer over the network, and the agent is in every image: what makes them
// big stays out.
func TestSmallProgramsStaySmall(t *testing.T) {
	for program, forbidden := range map[string][]string{
		"cmd/regiond-init": {"k8s.io", "sigs.k8s.io", "github.com/prometheus", module + "/region", module + "/bootstrap"},
		"cmd/regiond-node": {"k8s.io/kubernetes", "k8s.io/apiserver", "go.etcd.io", "github.com/containerd", module + "/bootstrap", module + "/hardware/server", module + "/hardware/netboot"},
	} {
		for _, d := range find(t, program).Deps {
			for _, f := range forbidden {
				if below(d, f) {
					t.Errorf("%s depends on %s", program, d)
				}
			}
		}
	}
}

// arrows say which rooms a room may import, besides itself: those of the design page. Data flows in
// one direction, and siblings (hardware, node, bootstrap) meet only in what machines say to each
// other.
var arrows = map[string][]string{
	"machine":    {},
	"region":     {"machine"},
	"images":     {"machine"},
	"bootstrap":  {"region", "machine", "images"},
	"hardware":   {"region", "machine", "images"},
	"node":       {"region", "machine", "images"},
	"components": {"region", "machine", "images"},
	"status":     {"bootstrap", "components", "hardware", "images", "region", "machine"},
	"test":       {"components", "status", "bootstrap", "hardware", "node", "images", "region", "machine"},
}

// What a machine of a region runs knows nothing of the lab, and nobody imports a command.
func TestRooms(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		room, _, _ := strings.Cut(p.room(), "/")
		if p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // tests may use what plays their counterpart
		}
		allowed, ok := arrows[room]
		if !ok && room != "cmd" && room != "tools" {
			t.Errorf("%s is in no room of the design page; got %q, want one of %v", p.ImportPath, room, slices.Sorted(maps.Keys(arrows)))
			continue
		}
		seen[room] = true
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module+"/")
			if !ours || below(to, room) {
				continue
			}
			if below(to, "cmd") || room != "cmd" && !slices.ContainsFunc(allowed, func(a string) bool { return below(to, a) }) {
				t.Errorf("%s imports %s; %s may import %v", p.room(), to, room, allowed)
			}
			if below(to, "test") && (p.room() == "cmd/regiond-init" || p.room() == "cmd/regiond-node") {
				t.Errorf("%s imports %s, which is the lab's", p.room(), to)
			}
		}
	}
	for room := range arrows {
		if !seen[room] {
			t.Errorf("there is no package in room %s", room)
		}
	}
}

// Bundles roll out their own objects by package rollout: it knows what Kubernetes' objects are, and
// nothing of OpenStack or hosts.
func TestRolloutKnowsNoComponent(t *testing.T) {
	for _, i := range find(t, "components/rollout").Imports {
		if to, ours := strings.CutPrefix(i, module+"/"); ours && to != "region" {
			t.Errorf("components/rollout imports %s; of ours it may import region alone", to)
		}
	}
}

func TestNamesAndComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 || p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		for part := range strings.SplitSeq(p.room(), "/") {
			if slices.Contains([]string{"pkg", "util", "utils", "common", "helper", "helpers", "types", "misc", "shared"}, part) {
				t.Errorf("%s: %q says nothing; a package is a noun of the field", p.room(), part)
			}
		}
		begins := "Package " + p.Name + " "
		if p.Name == "main" {
			begins = "Command " + path.Base(p.room()) + " "
		}
		if !strings.HasPrefix(p.Doc, begins) {
			t.Errorf("%s: the package comment %q does not begin with %q", p.room(), p.Doc, begins)
		}
	}
}

// Only commands read flags and the environment; everything else is given a Config.
func TestOnlyCommandsReadFlags(t *testing.T) {
	for _, p := range packages(t) {
		if p.Name == "main" || p.ForTest != "" || p.room() == "bootstrap/kube" { // bootstrap/kube runs components by their own commands
			continue
		}
		for _, i := range p.Imports {
			if i == "flag" || i == "github.com/spf13/pflag" || i == "github.com/spf13/cobra" {
				t.Errorf("%s imports %s", p.room(), i)
			}
		}
	}
}

// The flags of Go commands are set in one place; others compile Kubernetes again.
func TestFlagsAreThoseOfTheBuild(t *testing.T) {
	b, err := os.ReadFile("../../build.env")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOFLAGS", "CGO_ENABLED").Output()
	if err != nil {
		t.Fatal(err)
	}
	set := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, want := range []string{`GOFLAGS="` + set[0] + `"`, "CGO_ENABLED=" + set[len(set)-1]} {
		if !strings.Contains(string(b), "\n"+want+"\n") {
			t.Errorf("these tests were built with %s, which is not in build.env: set -a; . ./build.env; set +a", want)
		}
	}
}
