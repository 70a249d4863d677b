package guest

import (
	_ "embed"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// script is what the guest runs.
//
//go:embed guest.ipxe
var script string

// Lines of the console; see the package comment. A value follows those that end in a space.
const (
	LineDHCP       = "GUEST-DHCP-OK "
	LineMetadata   = "GUEST-METADATA-OK "
	LineUp         = "GUEST-UP"
	LinePing       = "GUEST-PING-OK "
	LinePingFailed = "GUEST-PING-FAILED "
)

// Pings is user data that makes a guest ping addresses (IPv4) forever, with a pause of whole
// seconds between rounds, and print for each ping whether it was answered: LinePing or
// LinePingFailed with the address.
func Pings(pause time.Duration, addresses ...netip.Addr) string {
	var b strings.Builder
	b.WriteString("#!ipxe\n:again\n")
	for _, a := range addresses {
		fmt.Fprintf(&b, "ping --count 1 --quiet %[1]s && echo %[2]s%[1]s || echo %[3]s%[1]s\n", a, LinePing, LinePingFailed)
	}
	fmt.Fprintf(&b, "sleep %d ||\ngoto again\n", max(1, int(pause.Seconds())))
	return b.String()
}
