// Package systemd writes regiond's service unit and talks to the service manager.
package systemd

import (
	"fmt"
	"strings"
)

// UnitName is the name of the service.
const UnitName = "regiond.service"

// Unit has the variable parts of the unit.
type Unit struct {
	// Program is the absolute path of regiond. systemd accepts no special characters in it.
	Program string
	// RegionFile is the absolute path of region.yaml.
	RegionFile string
}

// Text returns the unit file (systemd.service(5)).
func (u Unit) Text() string {
	return fmt.Sprintf(unitText, u.Program, quote(u.RegionFile))
}

const unitText = `# Written by regiond install; it is replaced by the next one. Put changes in a drop-in: systemctl edit regiond
[Unit]
Description=regiond, control plane of a cloud region
Wants=network-online.target
After=network-online.target local-fs.target time-sync.target
# It is always started again: the cause may be repaired at any time, and the servers of the region wait.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=%s run -f %s
Restart=always
RestartSec=5s
# The first start unpacks images and waits for etcd, the API server and the node.
TimeoutStartSec=15min
# Components are stopped one after the other, each within its own deadline.
TimeoutStopSec=3min
WatchdogSec=1min
# Only regiond is signalled, which stops its components in order. The shims of running pods
# stay, so that pods outlive a restart or an upgrade of regiond.
KillMode=process
# The kubelet makes cgroups of its own below this unit's.
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
# Without etcd nothing else on this host is of use.
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`

// quote quotes a path as one argument of a command line (systemd.service(5), "Command lines"; "%"
// begins a specifier, "$" a variable).
func quote(path string) string {
	path = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(path)
	if strings.ContainsAny(path, " \t\\\"'") {
		return `"` + path + `"`
	}
	return path
}
