package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"regiond.dev/regiond/images/guest"
)

// Console is what a guest has written to its serial line.
func (c *Cloud) Console(ctx context.Context, name string) (string, error) {
	g, err := c.Get(ctx, name)
	if err != nil {
		return "", err
	}
	return c.console(ctx, g)
}

func (c *Cloud) console(ctx context.Context, g Guest) (string, error) {
	out, err := servers.ShowConsoleOutput(ctx, c.compute, g.ID, servers.ShowConsoleOutputOpts{}).Extract()
	if err != nil {
		return "", fmt.Errorf("console of %s: %w", g.Name, err)
	}
	return out, nil
}

// Follow writes a guest's console to w as it grows, until ctx ends.
func (c *Cloud) Follow(ctx context.Context, name string, w io.Writer) error {
	g, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	shown := ""
	for {
		now, err := c.console(ctx, g)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		news, more := strings.CutPrefix(now, shown)
		if !more { // the guest was started again, or its log was rotated
			news = now
		}
		if _, err := io.WriteString(w, news); err != nil {
			return err
		}
		shown = now
		if c.wait(ctx, "", "") != nil {
			return nil
		}
	}
}

// Ping waits until a guest's own console says that it has reached another.
func (c *Cloud) Ping(ctx context.Context, from, to string) error {
	a, err := c.Get(ctx, from)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(a.Peers, func(p Peer) bool { return p.Name == to })
	if i < 0 {
		if _, err := c.Get(ctx, to); err != nil {
			return err
		}
		return fmt.Errorf("%s was not told to ping %s, which was made later: `regiond lab vm ping %s %s`, or make both at once", from, to, to, from)
	}
	var console string
	for {
		now, err := c.console(ctx, a)
		switch {
		case err == nil:
			console = now
		case ctx.Err() == nil && !busy(err):
			return err
		}
		if pinged(console, a.Peers[i].Address) {
			c.Report("%s (%s on %s) has pinged %s (%s)", from, a.Address, a.Node, to, a.Peers[i].Address)
			return nil
		}
		if err := c.wait(ctx, fmt.Sprintf("%s to ping %s (%s)", from, to, a.Peers[i].Address), "\n"+tail(console)); err != nil {
			return err
		}
	}
}

// busy tells whether a server failed to answer in time, rather than refused: a console is read by the compute host, and a slow
// one fails nova's remote call after a minute.
func busy(err error) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	return errors.As(err, &code) && code.Actual >= http.StatusInternalServerError
}

// pinged tells whether a guest said that an address had answered.
func pinged(console, address string) bool {
	for line := range strings.Lines(console) {
		if strings.TrimSpace(line) == guest.LinePing+address {
			return true
		}
	}
	return false
}

// tail of a console, as much as a person wants to read in an error.
func tail(console string) string {
	lines := strings.Split(strings.TrimSpace(console), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-12):], "\n  ")
}

// Delete guests with their ports, and wait until they are gone. One that is not there is no error.
func (c *Cloud) Delete(ctx context.Context, names []string) error {
	for {
		all, err := c.List(ctx)
		if err != nil {
			return err
		}
		var left []string
		for _, g := range all {
			if !slices.Contains(names, g.Name) {
				continue
			}
			left = append(left, g.Name+" "+g.Status)
			if g.Task == "deleting" {
				continue
			}
			if err := servers.Delete(ctx, c.compute, g.ID).ExtractErr(); err != nil && !gone(err) {
				return fmt.Errorf("guest %s: delete: %w", g.Name, err)
			}
		}
		if len(left) == 0 {
			break
		}
		if err := c.wait(ctx, "guests to be gone", strings.Join(left, ", ")); err != nil {
			return err
		}
	}
	found, err := c.ports(ctx)
	if err != nil {
		return err
	}
	for _, p := range found {
		if !slices.Contains(names, p.Name) {
			continue
		}
		if err := ports.Delete(ctx, c.network, p.ID).ExtractErr(); err != nil && !gone(err) {
			return fmt.Errorf("port of %s: delete: %w", p.Name, err)
		}
	}
	return nil
}
