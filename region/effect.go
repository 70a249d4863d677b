package region

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Effect is when a changed field of region.yaml takes effect once `regiond apply` has stored it.
type Effect string

// Effects, the soonest first.
const (
	// AtOnce: controllers read the field from the stored Region and act within seconds.
	AtOnce Effect = "AtOnce"
	// AtStart: the field is read once, when regiond starts. A regiond that runs restarts for it.
	AtStart Effect = "AtStart"
	// NextInstallation: a server that is installed keeps what it was installed with. One that is not
	// installed yet takes the field at once.
	NextInstallation Effect = "NextInstallation"
	// Never: a control plane keeps the field for its life. A change is refused.
	Never Effect = "Never"
)

func (e Effect) String() string {
	switch e {
	case AtOnce:
		return "at once"
	case AtStart:
		return "within seconds: regiond restarts, while servers, pods and guests run on"
	case NextInstallation:
		return "when a server is next installed (one that is not installed yet: at once)"
	case Never:
		return "never: it is fixed for the life of the control plane, and a change is refused"
	}
	return string(e)
}

// effects of all fields. An entry holds for the field itself and all below it, except where a
// longer one matches. Within a list whose fields differ in their effect each field has an entry of
// its own, so that a new one can't be forgotten.
var effects = []struct {
	path   string
	effect Effect
}{
	{"metadata", AtOnce},
	{"spec.networks", AtStart},
	{"spec.networks.management.address", Never}, // etcd's member and every certificate carry it
	{"spec.controlPlane", Never},
	{"spec.hardware.credentials", AtStart},
	{"spec.hardware.discovery", AtOnce},
	{"spec.hardware.servers", AtOnce},
	{"spec.hardware.profiles[].name", AtOnce},
	{"spec.hardware.profiles[].match", AtOnce},
	{"spec.hardware.profiles[].firmware", AtOnce}, // of every network boot, also one for an inspection
	{"spec.hardware.profiles[].role", NextInstallation},
	{"spec.hardware.profiles[].rootDisk", NextInstallation},
	{"spec.hardware.profiles[].kernelArguments", NextInstallation},
	{"spec.hardware.profiles[].network", NextInstallation},
	{"spec.images.node", NextInstallation},
	{"spec.images.dir", AtStart},
	{"spec.openstack", AtOnce},
	{"spec.backup", AtOnce},
}

var listKey = regexp.MustCompile(`\[[^]]*\]`)

// Effects of a change at a path of the Region object, e.g.
// spec.hardware.profiles[compute].rootDisk.overwrite, the soonest first. A change of a whole branch
// has those of all fields in it. None: it is not a field of region.yaml.
func Effects(path string) []Effect {
	path = listKey.ReplaceAllString(path, "[]")
	longest := ""
	var found, below []Effect
	for _, e := range effects {
		switch {
		case within(path, e.path):
			if len(e.path) > len(longest) {
				longest, found = e.path, []Effect{e.effect}
			}
		case within(e.path, path):
			below = append(below, e.effect)
		}
	}
	found = append(found, below...)
	order := []Effect{AtOnce, AtStart, NextInstallation, Never}
	return slices.DeleteFunc(order, func(e Effect) bool { return !slices.Contains(found, e) })
}

// ChangedAtStart returns the paths with effect AtStart in the table by whose fields two Regions
// differ: what a regiond that was started with a has to restart for, to have b.
func ChangedAtStart(a, b *Region) ([]string, error) {
	x, err := a.Desired()
	if err != nil {
		return nil, err
	}
	y, err := b.Desired()
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, e := range effects {
		if e.effect != AtStart {
			continue
		}
		if !reflect.DeepEqual(atStart(x.Object, e.path), atStart(y.Object, e.path)) {
			changed = append(changed, e.path)
		}
	}
	return changed, nil
}

// atStart returns the branch of an object at a path, without what has another effect.
func atStart(object map[string]any, path string) any {
	for _, e := range effects {
		if e.path != path && within(e.path, path) {
			unstructured.RemoveNestedField(object, strings.Split(e.path, ".")...)
		}
	}
	branch, _, _ := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...) // a path that ends early has nothing
	return branch
}

// within says whether a path is that of a branch or of something in it.
func within(path, branch string) bool {
	rest, ok := strings.CutPrefix(path, branch)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// EffectsTable is the table of the effects of all fields for the operators' guide, in Markdown.
func EffectsTable() string {
	var b strings.Builder
	b.WriteString("| a change of | takes effect |\n|---|---|\n")
	for _, e := range effects {
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.path, e.effect)
	}
	return b.String()
}
