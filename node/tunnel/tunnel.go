// Package tunnel finds out whether packets as large as guests' tunnels need them get from a host to
// the others. Open vSwitch sends what carries a guest's frame with DF ('don't fragment') set: where
// a link or a switch on the way takes less, large packets are lost without a word, while pings,
// logins and small answers work.
//
// Nothing has to be told to a host for that. The other ends of its tunnels are in Open vSwitch's
// own database, where Neutron's agent keeps them, and the size is in the configuration that this
// agent runs with.
package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"regiond.dev/regiond/region"
)

const (
	// Every is the time between looks.
	Every = 10 * time.Minute
	// atOnce is how many other ends are tried in a look, beside those that are known to be blocked.
	// A thousand hosts send each other 3,000 pairs of packets in ten minutes, and each is tried by
	// three others.
	atOnce = 3
	// neutron is the configuration of Neutron's agents.
	neutron = "etc/neutron/neutron.conf"
	// database is where Open vSwitch's database is served.
	database = "127.0.0.1:6640"
)

// Prober looks at the tunnels of a host.
type Prober struct {
	// Root of the file system, / on a real system.
	Root string
	Now  func() time.Time
	// Database of Open vSwitch, host:port; empty: where it is on a host.
	Database string
}

// Look tries the paths to some of the other ends, and to those that were blocked before. It returns
// nil if the host has no tunnels. It takes some seconds at most.
func (p Prober) Look(ctx context.Context, before *region.HostTunnels) (*region.HostTunnels, error) {
	size, err := p.size()
	if err != nil || size == 0 {
		return nil, err
	}
	at := p.Database
	if at == "" {
		at = database
	}
	local, others, err := ends(ctx, at)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	var blocked []netip.Addr
	if before != nil {
		blocked = parse(before.Blocked)
	}
	chosen := choose(local, others, blocked, p.Now())
	found, err := probe(ctx, local, chosen, size)
	if err != nil {
		return nil, err
	}
	return &region.HostTunnels{MTU: int32(size), Blocked: judge(others, blocked, found)}, nil
}

// size in bytes of the packets that carry guests' frames, IP header included: Neutron gives guests
// what is left of it. It is 0 on hosts that Neutron's agents don't run on.
func (p Prober) size() (int, error) {
	f, err := os.Open(filepath.Join(p.Root, neutron))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	section := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section != "[DEFAULT]" || strings.TrimSpace(key) != "global_physnet_mtu" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < smallest || n > largest {
			return 0, fmt.Errorf("%s: global_physnet_mtu = %s is not from %d to %d", f.Name(), strings.TrimSpace(value), smallest, largest)
		}
		return n, nil
	}
	return 0, lines.Err()
}

func parse(addresses []string) (all []netip.Addr) {
	for _, a := range addresses {
		if p, err := netip.ParseAddr(a); err == nil { // what an earlier agent wrote is not this one's fault
			all = append(all, p)
		}
	}
	return all
}

// choose the ends to try, without a memory of those that were: the hosts are a ring in the order of
// their addresses, and in each period every host tries the next ones from where it was. So each is
// tried by as many others. Those that were blocked are tried each time, so that it is seen when
// they no longer are.
func choose(local netip.Addr, others, blocked []netip.Addr, now time.Time) []netip.Addr {
	ring := slices.Clone(others)
	slices.SortFunc(ring, netip.Addr.Compare)
	next, _ := slices.BinarySearchFunc(ring, local, netip.Addr.Compare)
	round := now.Unix() / int64(Every/time.Second)
	first := next + int(round*atOnce%int64(len(ring)))
	var all []netip.Addr
	for i := range min(atOnce, len(ring)) {
		all = append(all, ring[(first+i)%len(ring)])
	}
	for _, b := range blocked {
		if slices.Contains(ring, b) && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	return all
}

// judge says which ends are blocked. What was seen of one stands until something else is seen, or
// it is no longer an end of a tunnel: that one does not answer at all, since it is restarted for
// one, says nothing.
func judge(others, before []netip.Addr, found map[netip.Addr]outcome) []string {
	var blocked []netip.Addr
	for _, a := range others {
		if found[a] == stopped || found[a] == silent && slices.Contains(before, a) {
			blocked = append(blocked, a)
		}
	}
	slices.SortFunc(blocked, netip.Addr.Compare)
	var all []string
	for _, a := range blocked[:min(len(blocked), region.MaxBlockedTunnels)] {
		all = append(all, a.String())
	}
	return all
}
