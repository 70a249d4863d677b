package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/identity"
)

// DefaultStateFile is where the running agent leaves its State.
const DefaultStateFile = "/run/regiond/agent.json"

// State is what the running agent leaves for `regiond-node healthy`.
type State struct {
	// Joined: the host has a client certificate.
	Joined bool `json:"joined"`
	// Time of the last exchange with the region, or try of one, and of the last that succeeded.
	Time        time.Time `json:"time"`
	LastSuccess time.Time `json:"lastSuccess"`
	// Error of the last exchange.
	Error string `json:"error,omitempty"`
	// Unreachable: nobody answered, in contrast to a refusal.
	Unreachable bool `json:"unreachable,omitempty"`
}

// apiAbsence is how long a region may be out of reach before a boot is judged without it: longer
// than regiond needs to restart, shorter than a person's patience.
const apiAbsence = 10 * time.Minute

// HealthyConfig of Healthy.
type HealthyConfig struct {
	DataDir, StateFile string
	Observer           Observer
	// Link says whether an interface of that name exists and is up. nil on a real system.
	Link func(name string) error
	// Poll is how often the state is looked at. Default 2 s.
	Poll time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// Healthy waits until this boot has proved itself: the agent reached the region. A region that is away
// must not count against a boot, so after a while the host is judged by what it sees itself.
func Healthy(ctx context.Context, c HealthyConfig) error {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Poll == 0 {
		c.Poll = 2 * time.Second
	}
	if c.Link == nil {
		c.Link = linkUp
	}
	start := c.Now()
	last := ""
	for {
		state, err := readState(c.StateFile)
		ok, why := false, ""
		if err != nil {
			why = fmt.Sprintf("waiting for the agent to start: %v", err)
		} else if ok, why = bootProven(state, start, c.Now()); !ok && state.Unreachable && c.Now().Sub(start) >= apiAbsence {
			if problem := c.local(ctx); problem == "" {
				ok, why = true, "the region is out of reach ("+state.Error+"), but this host's network and system are in order"
			} else {
				why = "the region is out of reach, and on this host: " + problem
			}
		}
		if ok {
			c.Log.Info("this boot is healthy", slog.String("reason", why))
			return nil
		}
		if why != last {
			c.Log.Info("not yet healthy", slog.String("reason", why))
			last = why
		}
		if !backoff.Sleep(ctx, c.Poll) {
			return fmt.Errorf("not healthy: %s", why)
		}
	}
}

// bootProven says whether the agent has reached the region in this boot. It is pure.
func bootProven(s State, start, now time.Time) (bool, string) {
	switch {
	case !s.Joined:
		return false, fmt.Sprintf("waiting for the agent to join since %s: %s", start.UTC().Format(time.RFC3339), s.Error)
	case s.LastSuccess.IsZero() || now.Sub(s.LastSuccess) > leaseDuration:
		return false, fmt.Sprintf("waiting for a heartbeat since %s: %s", start.UTC().Format(time.RFC3339), s.Error)
	}
	return true, "the agent reaches the region"
}

// local looks for what a new kernel or image may have broken: the interfaces, and failed units.
func (c HealthyConfig) local(ctx context.Context) string {
	id, err := ReadIdentity(filepath.Join(c.DataDir, identity.File))
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, i := range id.Network.Interfaces {
		names = append(names, i.Name)
	}
	for _, b := range id.Network.Bonds {
		names = append(names, b.Name)
	}
	for _, n := range names {
		if err := c.Link(n); err != nil {
			return err.Error()
		}
	}
	o := c.Observer.Observe(ctx)
	if len(o.Addresses) == 0 {
		return "there is no address on any interface"
	}
	if healthy, _, message := Judge(o, 0); !healthy {
		return message
	}
	return ""
}

func linkUp(name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w; was it named anew by the kernel?", name, err)
	}
	if i.Flags&net.FlagRunning == 0 {
		return fmt.Errorf("interface %s has no carrier; check its cable", name)
	}
	return nil
}

func writeState(path string, s State) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, b, 0o644)
}

func readState(path string) (s State, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(b, &s)
	return s, err
}
