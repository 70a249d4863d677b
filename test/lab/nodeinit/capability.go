package nodeinit

import (
	"fmt"
	"slices"
	"strings"
)

// capabilityNames in the order of their numbers, linux/capability.h.
var capabilityNames = strings.Fields(`chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
	net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource
	sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf
	checkpoint_restore`)

// capabilities by their numbers.
func capabilities(names []string) ([]uintptr, error) {
	var caps []uintptr
	for _, n := range names {
		i := slices.Index(capabilityNames, strings.TrimPrefix(strings.ToLower(n), "cap_"))
		if i < 0 {
			return nil, fmt.Errorf("AmbientCapabilities: %q is not a capability", n)
		}
		caps = append(caps, uintptr(i))
	}
	return caps, nil
}
