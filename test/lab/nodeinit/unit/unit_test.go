package unit

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const novaCompute = `# written by regiond
[Unit]
Description=OpenStack compute
After=libvirtd.service network.target
Requires=libvirtd.service
Wants=ovs-vswitchd.service
PartOf=all.target
[Service]
Type=notify
User=nova
SupplementaryGroups=libvirt kvm
Environment="A=1 2" B=3
EnvironmentFile=-/etc/default/nova
RuntimeDirectory=nova nova/sub
RuntimeDirectoryMode=0750
StateDirectory=nova
ExecStartPre=-/bin/mkdir -p /x
ExecStart=/usr/bin/nova-compute --config-file /etc/nova/nova.conf \
    --log-file "/var/log/n o.log" \
# a comment in between
    $EXTRA ${B}
Restart=on-failure
RestartSec=1min 500ms
TimeoutStopSec=infinity
KillMode=process
KillSignal=SIGINT
LimitNOFILE=1024:64K
OOMScoreAdjust=-900
AmbientCapabilities=CAP_NET_ADMIN cap_sys_admin
ProtectSystem=full
[Install]
WantedBy=multi-user.target
`

func TestParse(t *testing.T) {
	u, err := Parse("nova-compute.service", Source{"nova-compute.service", novaCompute})
	if err != nil {
		t.Fatal(err)
	}
	score := -900
	want := &Unit{Name: "nova-compute.service", Description: "OpenStack compute", After: []string{"libvirtd.service", "network.target"},
		Requires: []string{"libvirtd.service"}, Wants: []string{"ovs-vswitchd.service"}, PartOf: []string{"all.target"},
		Type: TypeNotify, User: "nova", SupplementaryGroups: []string{"libvirt", "kvm"}, UMask: 0o022, Environment: []string{"A=1 2", "B=3"},
		EnvironmentFiles: []string{"-/etc/default/nova"},
		Directories:      []Directory{{"/run", "nova", 0o750, true}, {"/run", "nova/sub", 0o750, true}, {"/var/lib", "nova", 0o755, false}},
		StartPre:         []Command{{Argv: []string{"/bin/mkdir", "-p", "/x"}, IgnoreFailure: true}},
		Start: []Command{{Argv: []string{"/usr/bin/nova-compute", "--config-file", "/etc/nova/nova.conf", "--log-file", "/var/log/n o.log",
			"$EXTRA", "${B}"}}},
		Restart: "on-failure", RestartWait: time.Minute + 500*time.Millisecond, TimeoutStart: 90 * time.Second, TimeoutStop: 0,
		KillMode: KillProcess, KillSignal: "INT", Limits: []Limit{{"NOFILE", 1024, 65536}}, OOMScoreAdjust: &score,
		AmbientCapabilities: []string{"CAP_NET_ADMIN", "cap_sys_admin"}, Unknown: []string{"Service.ProtectSystem"}}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("got  %+v\nwant %+v", u, want)
	}
	got := u.Start[0].Expand(func(name string) string { return map[string]string{"EXTRA": "-v  -d", "B": "3 4"}[name] })
	if !slices.Equal(got[5:], []string{"-v", "-d", "3 4"}) {
		t.Errorf("expanded: %q", got)
	}
}

func TestDropInsAndTemplates(t *testing.T) {
	u, err := Parse("net@br0.service", Source{"a", "[Service]\nType=oneshot\nExecStart=/bin/a %i %n %p 100%%\nExecStart=/bin/b\nEnvironment=A=1\n"},
		Source{"b", "[Service]\nExecStart=\nExecStart=@/bin/c zero one\nRemainAfterExit=yes\n"})
	if err != nil || len(u.Start) != 1 || u.Start[0].Argv0 != "zero" || !slices.Equal(u.Start[0].Argv, []string{"/bin/c", "one"}) || !u.RemainAfterExit || u.TimeoutStart != 0 {
		t.Errorf("%+v %v", u, err)
	}
	u, err = Parse("net@br0.service", Source{"a", "[Service]\nExecStart=/bin/a %i %n %p 100%%\n"})
	if err != nil || strings.Join(u.Start[0].Argv, " ") != "/bin/a br0 net@br0.service net 100%" {
		t.Errorf("%+v %v", u, err)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ content, want string }{
		{"[Service]\nType=forking\nExecStart=/bin/a\n", "Type=forking is not supported"},
		{"[Service]\nKillMode=none\nExecStart=/bin/a\n", "KillMode=none"},
		{"[Service]\nRestart=maybe\nExecStart=/bin/a\n", "Restart=maybe"},
		{"[Service]\nType=simple\n", "0 ExecStart= lines"},
		{"[Service]\nExecStart=/bin/a\nExecStart=/bin/b\n", "2 ExecStart= lines"},
		{"[Service]\nExecStart=/bin/a \"b\n", "x.service:2: ExecStart: a quote"},
		{"[Service]\nExecStart=/bin/a ; /bin/b\n", "several commands"},
		{"[Service]\nExecStart=/bin/a\nRestartSec=5 parsecs\n", `x.service:3: RestartSec: "5 parsecs" is not a time`},
		{"[Service]\nExecStart=/bin/a\nUMask=99\n", "UMask"},
		{"[Service]\nExecStart=/bin/a\nLimitNOFILE=many\n", "LimitNOFILE"},
		{"[Service]\nExecStart=/bin/a\nRemainAfterExit=perhaps\n", "neither yes nor no"},
		{"[Service\n", "does not end with ]"},
		{"hello\n", "not an assignment"},
		{"A=1\n", "not an assignment in a section"},
	} {
		if _, err := Parse("x.service", Source{"x.service", tt.content}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.content, err, tt.want)
		}
	}
}

func TestRestarts(t *testing.T) {
	for _, tt := range []struct {
		restart               string
		clean, failed, killed bool
	}{
		{"no", false, false, false}, {"always", true, true, true}, {"on-success", true, false, false},
		{"on-failure", false, true, true}, {"on-abnormal", false, false, true},
	} {
		u := &Unit{Restart: tt.restart}
		if u.Restarts(true, false) != tt.clean || u.Restarts(false, false) != tt.failed || u.Restarts(false, true) != tt.killed {
			t.Errorf("%s: %v %v %v", tt.restart, u.Restarts(true, false), u.Restarts(false, false), u.Restarts(false, true))
		}
	}
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		``: nil, ` a  b `: {"a", "b"}, `'a b' "c d"e`: {"a b", "c de"}, `a\sb\x41`: {"a bA"}, `a\.b`: {`a\.b`}, `""`: {""}, `it's`: {"it's"},
	} {
		if got, err := Split(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	for _, bad := range []string{`a\`, `"a`, `\xZZ`, `\x00`} {
		if got, err := Split(bad); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(novaCompute)
	f.Add("[Service]\nExecStart=@+-:/bin/a \\x41 ${A}$B$$ %%%n\n[X-a]\nb=c\nLimitCORE=infinity:1G\n")
	f.Fuzz(func(t *testing.T, content string) {
		u, err := Parse("a@b.service", Source{"a@b.service", content})
		if err != nil {
			return
		}
		for _, c := range slices.Concat(u.Start, u.StartPre, u.StartPost, u.Stop, u.StopPost, u.Reload) {
			if len(c.Argv) == 0 || c.Argv[0] == "" {
				t.Errorf("an empty command in %q", content)
			}
			c.Expand(func(string) string { return "x y" })
		}
		for _, d := range u.Directories {
			if strings.Contains("/"+d.Path+"/", "/../") {
				t.Errorf("directory %q leaves %s", d.Path, d.Root)
			}
		}
	})
}
