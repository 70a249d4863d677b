package region

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ParseRange reads "first-last", both included, as in spec.networks.provisioning.dhcp.range and
// spec.hardware.discovery[].range. Both are IPv4 and in order.
func ParseRange(s string) (first, last netip.Addr, err error) {
	from, to, found := strings.Cut(s, "-")
	if !found {
		return first, last, errors.New("is not an address range first-last")
	}
	if first, err = netip.ParseAddr(from); err != nil || !first.Is4() {
		return first, last, fmt.Errorf("begins with %.80q, which is not an IPv4 address", from)
	}
	if last, err = netip.ParseAddr(to); err != nil || !last.Is4() {
		return first, last, fmt.Errorf("ends with %.80q, which is not an IPv4 address", to)
	}
	if last.Less(first) {
		return first, last, errors.New("ends before it begins")
	}
	return first, last, nil
}
