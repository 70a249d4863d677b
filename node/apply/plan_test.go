package apply

import (
	"strings"
	"testing"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

func TestPlan(t *testing.T) {
	want := configuration.Configuration{Files: []configuration.File{file("/etc/x", "1"), file(units+"x.service", "u")},
		Services: []configuration.Service{{Name: "x.service", Files: []string{"/etc/x", units + "x.service"}}, {Name: "r.service", Files: []string{"/etc/x"}, Reload: true},
			{Name: "o.service", Oneshot: true}}}
	there := map[string]configuration.File{"/etc/x": want.Files[0], units + "x.service": want.Files[1]}
	run := func(active, digest, unit string) Run {
		return Run{State: service.State{Active: active, Enabled: true, Invocation: "i"}, Digest: digest, UnitDigest: unit}
	}
	x, r, o := want.Digest(want.Services[0]), want.Digest(want.Services[1]), want.Digest(want.Services[2])
	noUnit := unitDigest(want, want.Services[1])
	good := map[string]Run{"x.service": run("active", x, ""), "r.service": run("active", r, noUnit), "o.service": run("active", o, "")}
	with := func(name string, r Run) map[string]Run {
		all := map[string]Run{name: r}
		for k, v := range good {
			if k != name {
				all[k] = v
			}
		}
		return all
	}
	without := func(change func(map[string]configuration.File)) map[string]configuration.File {
		m := map[string]configuration.File{}
		for k, v := range there {
			m[k] = v
		}
		change(m)
		return m
	}
	disabled, stale := good["x.service"], good["x.service"]
	disabled.Enabled, stale.Stale = false, true
	for _, tt := range []struct {
		name string
		s    Situation
		want string
	}{
		{"as it should be", Situation{Files: there, Runs: good}, ""},
		{"nothing there", Situation{}, "write /etc/x, write /etc/systemd/system/x.service, reload-units , enable x.service, start x.service, enable r.service, start r.service, enable o.service, start o.service"},
		{"other content", Situation{Files: without(func(m map[string]configuration.File) { m["/etc/x"] = file("/etc/x", "2") }), Runs: good}, "write /etc/x"},
		{"other mode", Situation{Files: without(func(m map[string]configuration.File) { f := m["/etc/x"]; f.Mode = "0600"; m["/etc/x"] = f }), Runs: good}, "write /etc/x"},
		{"a link", Situation{Files: without(func(m map[string]configuration.File) { m["/etc/x"] = configuration.File{Path: "/etc/x"} }), Runs: good}, "write /etc/x"},
		{"unit file", Situation{Files: without(func(m map[string]configuration.File) { delete(m, units+"x.service") }), Runs: good}, "write /etc/systemd/system/x.service, reload-units "},
		{"stale unit", Situation{Files: there, Runs: with("x.service", stale)}, "reload-units "},
		{"old file, not there", Situation{Files: there, Runs: good, Owned: Names{Files: []string{"/etc/old"}}}, ""},
		{"old file", Situation{Files: without(func(m map[string]configuration.File) { m["/etc/old"] = file("/etc/old", "") }), Runs: good, Owned: Names{Files: []string{"/etc/old", "/etc/x"}}}, "remove /etc/old"},
		{"old network file", Situation{Files: without(func(m map[string]configuration.File) { m["/etc/systemd/network/a.network.d/x.conf"] = file("/a", "") }), Runs: good,
			Owned: Names{Files: []string{"/etc/systemd/network/a.network.d/x.conf"}}}, "remove /etc/systemd/network/a.network.d/x.conf, reload-network "},
		{"old services", Situation{Files: there, Runs: with("old1.service", run("active", "", "")), Owned: Names{Services: []string{"old1.service", "x.service"}}}, "stop old1.service"},
		{"old service that is stopped", Situation{Files: there, Runs: with("old1.service", Run{State: service.State{Active: "inactive"}}), Owned: Names{Services: []string{"old1.service"}}}, ""},
		{"runs with other files", Situation{Files: there, Runs: with("x.service", run("active", "0", ""))}, "restart x.service"},
		{"runs with unknown files", Situation{Files: there, Runs: with("r.service", run("active", "", ""))}, "restart r.service"},
		{"reload", Situation{Files: there, Runs: with("r.service", run("active", "0", noUnit))}, "reload r.service"},
		{"reload, but its unit changed", Situation{Files: there, Runs: with("r.service", run("active", "0", "0"))}, "restart r.service"},
		{"stopped", Situation{Files: there, Runs: with("x.service", run("inactive", x, ""))}, "start x.service"},
		{"failed", Situation{Files: there, Runs: with("x.service", run("failed", x, ""))}, "start x.service"},
		{"starting", Situation{Files: there, Runs: with("x.service", run("activating", "", ""))}, ""},
		{"starting with other files", Situation{Files: there, Runs: with("x.service", run("activating", "0", ""))}, "restart x.service"},
		{"disabled", Situation{Files: there, Runs: with("x.service", disabled)}, "enable x.service"},
		{"oneshot that has ended", Situation{Files: there, Runs: with("o.service", run("inactive", o, ""))}, ""},
		{"oneshot of another time", Situation{Files: there, Runs: with("o.service", run("inactive", "0", ""))}, "start o.service"},
	} {
		var got []string
		for _, s := range Plan(want, tt.s) {
			got = append(got, string(s.Kind)+" "+s.Name)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, strings.Join(got, ", "), tt.want)
		}
	}
}
