package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// A check of the tables is one netlink request.
const tablesInterval = 2 * time.Second

// proxySettles is how long a new kube-proxy has to write its table.
const proxySettles = 10 * time.Second

const proxyComponent = "kube-proxy"

// tables watches the nftables tables that pods and Services need. Reloading the host's firewall
// removes all of a host's tables: Debian's /etc/nftables.conf begins with "flush ruleset".
type tables struct {
	mu      sync.Mutex
	missing []string
	since   time.Time
	failure error
}

// problem says what is missing and since when, empty if nothing is.
func (t *tables) problem() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.missing) == 0 {
		return ""
	}
	text := fmt.Sprintf("nftables tables missing since %s: %s; pods and Services can't be reached. Something removed them, e.g. a reload of "+
		"the host's firewall that flushes the ruleset; they are being restored", t.since.Format(time.RFC3339), strings.Join(t.missing, ", "))
	if t.failure != nil {
		text += ", which failed: " + t.failure.Error()
	}
	return text
}

// note records what is missing and reports whether that has changed.
func (t *tables) note(missing []string, now time.Time) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed = !slices.Equal(missing, t.missing)
	if len(t.missing) == 0 {
		t.since, t.failure = now, nil
	}
	t.missing = missing
	return changed
}

func (t *tables) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = err
}

// missingTables returns the tables that should exist but do not. kube-proxy writes its own some
// time after its start.
func missingTables(present []string, own string, proxy supervisor.Component, now time.Time) []string {
	var missing []string
	if !slices.Contains(present, own) {
		missing = append(missing, own)
	}
	if proxy.Ready && now.Sub(proxy.Since) > proxySettles && !slices.Contains(present, proxyTable) {
		missing = append(missing, proxyTable)
	}
	return missing
}

// keepTables restores removed tables until the context ends.
func (c *Cluster) keepTables(ctx context.Context) {
	ticker := time.NewTicker(tablesInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.repairTables(ctx); err != nil && ctx.Err() == nil {
			c.tables.fail(err)
			c.config.Log.Error("restore nftables tables; retrying", slog.Any("error", err))
		}
	}
}

func (c *Cluster) repairTables(ctx context.Context) error {
	present, err := tableNames(c.node.PodCIDR.Addr().Is6())
	if err != nil {
		return err
	}
	missing := missingTables(present, config.MasqueradeTable(c.node.ID), c.component(proxyComponent), time.Now())
	if c.tables.note(missing, time.Now()) {
		if len(missing) > 0 {
			c.config.Log.Warn("nftables tables are missing; restoring them", slog.Any("tables", missing))
		} else {
			c.config.Log.Info("nftables tables are restored")
		}
	}
	if slices.Contains(missing, config.MasqueradeTable(c.node.ID)) {
		if err := nft(c.node.Masquerade()); err != nil {
			return err
		}
	}
	if !slices.Contains(missing, proxyTable) {
		return nil
	}
	// A running kube-proxy assumes that its rules still exist, and writes all of them only at its
	// start (its full syncs are an hour apart).
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return c.supervisor.Restart(ctx, proxyComponent)
}

func (c *Cluster) component(name string) supervisor.Component {
	for _, s := range c.supervisor.Snapshot() {
		if s.Name == name {
			return s
		}
	}
	return supervisor.Component{}
}
