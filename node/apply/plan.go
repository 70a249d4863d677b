package apply

import (
	"path"
	"slices"
	"strings"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

// Kind of a step.
type Kind string

// Kinds of steps, in the order in which they are taken.
const (
	StopService   Kind = "stop"           // and disable: it is no longer in the configuration
	WriteFile     Kind = "write"          // whole, or not at all
	RemoveFile    Kind = "remove"         // it is no longer in the configuration
	ReloadUnits   Kind = "reload-units"   // unit files changed
	ReloadNetwork Kind = "reload-network" // files of systemd-networkd changed
	EnableService Kind = "enable"
	StartService  Kind = "start"
	Restart       Kind = "restart" // it runs with other files than it should
	Reload        Kind = "reload"  // the same, and it takes them over by a reload
)

// Step towards a configuration.
type Step struct {
	Kind Kind
	// Name of the service, or path of the file.
	Name string
	// File to write.
	File configuration.File
}

// Names of what a configuration holds, without its content.
type Names struct {
	Files    []string `json:"files,omitempty"`
	Services []string `json:"services,omitempty"`
}

func namesOf(c configuration.Configuration) Names {
	var n Names
	for _, f := range c.Files {
		n.Files = append(n.Files, f.Path)
	}
	for _, s := range c.Services {
		n.Services = append(n.Services, s.Name)
	}
	return n
}

// with adds names, each once.
func (n Names) with(more Names) Names {
	add := func(list, more []string) []string {
		list = slices.Clone(list)
		for _, m := range more {
			if !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
		return list
	}
	return Names{add(n.Files, more.Files), add(n.Services, more.Services)}
}

// Run of a service, and what it runs with.
type Run struct {
	service.State
	// Digest of the files it was started with, see configuration.Configuration.Digest; empty when that is not known.
	Digest string
	// UnitDigest is that of its unit files alone.
	UnitDigest string
}

// Situation on a host.
type Situation struct {
	// Files as they are, by path; what is not there is absent. A path that holds no regular file has the Mode "".
	Files map[string]configuration.File
	Runs  map[string]Run
	// Owned are the files and services of earlier configurations.
	Owned Names
}

// Plan says how a host gets from its situation to a configuration. It is pure. An empty plan means
// that the host is as it should be.
func Plan(want configuration.Configuration, s Situation) []Step {
	steps := planFiles(want, s)
	for _, w := range want.Services {
		steps = append(steps, decide(want, w, s.Runs[w.Name])...)
	}
	return steps
}

// planFiles is the plan up to the services of the configuration.
func planFiles(want configuration.Configuration, s Situation) []Step {
	names := namesOf(want)
	var steps []Step
	for _, name := range slices.Backward(s.Owned.Services) {
		if run := s.Runs[name]; !slices.Contains(names.Services, name) && !run.Missing &&
			(run.Enabled || run.Active != service.Inactive && run.Active != service.Failed) {
			steps = append(steps, Step{Kind: StopService, Name: name})
		}
	}
	units, network := false, false
	touch := func(p string) {
		units = units || isUnit(p)
		network = network || isNetworkd(p)
	}
	for _, f := range want.Files {
		if s.Files[f.Path] != plain(f) {
			steps = append(steps, Step{Kind: WriteFile, Name: f.Path, File: f})
			touch(f.Path)
		}
	}
	for _, p := range s.Owned.Files {
		if _, there := s.Files[p]; there && !slices.Contains(names.Files, p) {
			steps = append(steps, Step{Kind: RemoveFile, Name: p})
			touch(p)
		}
	}
	for _, w := range want.Services {
		units = units || s.Runs[w.Name].Stale
	}
	if units {
		steps = append(steps, Step{Kind: ReloadUnits})
	}
	if network {
		steps = append(steps, Step{Kind: ReloadNetwork})
	}
	return steps
}

// decide what to do with one service.
func decide(want configuration.Configuration, w configuration.Service, run Run) []Step {
	var steps []Step
	if !run.Enabled {
		steps = append(steps, Step{Kind: EnableService, Name: w.Name})
	}
	digest, unit := want.Digest(w), unitDigest(want, w)
	switch {
	case run.Runs() && run.Digest == digest:
	case run.Runs() && w.Reload && run.Digest != "" && run.UnitDigest == unit:
		steps = append(steps, Step{Kind: Reload, Name: w.Name})
	case run.Runs():
		steps = append(steps, Step{Kind: Restart, Name: w.Name})
	case run.Active == service.Activating || run.Active == service.Deactivating:
		if run.Digest != "" && run.Digest != digest { // it would end, or be restarted, with what it has
			steps = append(steps, Step{Kind: Restart, Name: w.Name})
		}
	case w.Oneshot && run.Active == service.Inactive && run.Digest == digest: // done
	default:
		steps = append(steps, Step{Kind: StartService, Name: w.Name})
	}
	return steps
}

// plain is a file without what can't be seen on disk.
func plain(f configuration.File) configuration.File {
	f.Network = false
	f.Mode = modeText(f)
	return f
}

// unitDigest of the unit files among a service's files. A reload does not take those over.
func unitDigest(c configuration.Configuration, w configuration.Service) string {
	var units []string
	for _, p := range w.Files {
		if isUnit(p) {
			units = append(units, p)
		}
	}
	return c.Digest(configuration.Service{Files: units})
}

func isUnit(p string) bool {
	return strings.HasPrefix(p, "/etc/systemd/system/") || strings.HasPrefix(p, "/run/systemd/system/")
}

// isNetworkd says whether systemd-networkd reads the file; see systemd.network(5).
func isNetworkd(p string) bool {
	dir := path.Dir(p)
	if strings.HasSuffix(dir, ".d") {
		dir = path.Dir(dir)
	}
	return dir == "/etc/systemd/network" || dir == "/run/systemd/network"
}

// changesNetwork says whether a plan touches a file that can cut the host off. Removed files are looked up in before.
func changesNetwork(steps []Step, before configuration.Configuration) bool {
	for _, s := range steps {
		if s.Kind == WriteFile && s.File.Network {
			return true
		}
		if s.Kind == RemoveFile && slices.ContainsFunc(before.Files, func(f configuration.File) bool { return f.Path == s.Name && f.Network }) {
			return true
		}
	}
	return false
}
