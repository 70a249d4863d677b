package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/region"
)

func TestHostsAge(t *testing.T) {
	for name, tt := range map[string]struct {
		ready, changing bool
		unchanged, want time.Duration
	}{
		"all is well":                     {true, false, time.Hour, time.Minute},
		"a change begins":                 {true, true, time.Hour, 0},
		"a change is on its way":          {false, true, 3 * time.Second, time.Second},
		"its host does not take it":       {false, true, 5 * time.Minute, 25 * time.Second},
		"it was switched off":             {false, true, 24 * time.Hour, time.Minute},
		"a host has just failed":          {false, false, 0, 5 * time.Second},
		"and fails for two minutes":       {false, false, 2 * time.Minute, 10 * time.Second},
		"and for a week":                  {false, false, 7 * 24 * time.Hour, time.Minute},
		"nothing was ever seen to change": {false, false, 1 << 62, time.Minute},
	} {
		if got := cluster.HostsAge(tt.ready, tt.changing, tt.unchanged); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// A host that is lost must not have Nova and Neutron list all hosts every few seconds until somebody
// takes it away. When it is back, that is seen within the time that it would be if all were well.
func TestLostHostIsNotAskedForAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	w.readyHosts()
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.cloud.hosts["node2"].Service.State = "down"
	w.until(always(c), "its loss is told", func() bool {
		return strings.Contains(w.condition(region.ConditionNodes).Message, "node2 first: its nova-compute does not report")
	})
	w.cloud.askedHosts = 0
	turns := w.pass(c, time.Hour, false)
	if n := w.cloud.askedHosts; n < 50 || n > 110 || turns > 300 {
		t.Errorf("Nova and Neutron were asked for all hosts %d times in %d turns in an hour, want once a minute after a while", n, turns)
	}
	w.cloud.hosts["node2"].Service.State = "up"
	w.pass(c, 70*time.Second, false)
	if !w.ready() {
		t.Errorf("the host is back for more than a minute: %+v", w.condition(region.ConditionNodes))
	}
}

// Users of hosts that can't be made are tried again ever more rarely: each attempt lists all of them.
func TestUsersOfHostsBackOff(t *testing.T) {
	w := newWorld(t)
	w.cloud.failing["users"] = errors.New("user compute-node1 is somebody's")
	c := w.controller()
	w.host("node1", "10.99.0.101")
	w.until(always(c), "it is told", func() bool { return strings.Contains(w.condition(region.ConditionNodes).Message, "somebody's") })
	w.cloud.askedUsers = 0
	w.pass(c, 20*time.Minute, false)
	if n := w.cloud.askedUsers; n < 15 || n > 30 {
		t.Errorf("they were tried %d times in 20 minutes, want once a minute after a while", n)
	}
	// For other hosts they are tried at once.
	w.cloud.askedUsers = 0
	w.host("node2", "10.99.0.102")
	w.pass(c, 3*time.Second, false)
	if w.cloud.askedUsers != 1 {
		t.Errorf("with another host they were tried %d times, want once", w.cloud.askedUsers)
	}
	delete(w.cloud.failing, "users")
	w.until(always(c), "the host is configured", func() bool { return w.configured("node1") })
}
