// Package status is what `regiond status` shows of all rooms: a model, built from observed facts by
// a pure function, and its rendering.
package status

import (
	"cmp"
	"io"
	"slices"
	"time"
)

// Region is the state of a region for people and programs to read.
type Region struct {
	Region string `json:"region,omitempty"`
	// Ready: the control plane is ready, and so is every server and OpenStack cluster.
	Ready bool `json:"ready"`
	// Message says in one sentence what the region is waiting for; empty when ready.
	Message      string       `json:"message,omitempty"`
	ControlPlane ControlPlane `json:"controlPlane"`
	Servers      []Server     `json:"servers"`
	Hosts        []Host       `json:"hosts"`
	OpenStack    []OpenStack  `json:"openstack"`
}

// Build builds the model from the facts.
func Build(f Facts) Region {
	r := Region{ControlPlane: controlPlane(f), Servers: []Server{}, Hosts: []Host{}, OpenStack: []OpenStack{}}
	if f.Daemon != nil {
		r.Region = f.Daemon.Region
	}
	heartbeats := map[string]time.Time{}
	for _, l := range f.Leases {
		if t := l.Spec.RenewTime; t != nil {
			heartbeats[l.Name] = t.Time
		}
	}
	for _, s := range f.Servers {
		r.Servers = append(r.Servers, server(s, heartbeats[s.Name]))
	}
	for _, h := range f.Hosts {
		r.Hosts = append(r.Hosts, host(h, heartbeats[h.Name]))
	}
	for _, c := range f.OpenStack {
		c := c.DeepCopy() // the caller's facts stay unchanged
		if f.Daemon != nil {
			c.Unchecked(f.Daemon.Started, f.Daemon.Started)
		}
		r.OpenStack = append(r.OpenStack, openstack(*c))
	}
	slices.SortFunc(r.OpenStack, func(a, b OpenStack) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })

	r.Message = r.ControlPlane.Message
	if r.ControlPlane.Ready {
		r.Message = cmp.Or(unreadyServers(r.Servers), unreadyOpenStack(r.OpenStack))
	}
	r.Ready = r.Message == ""
	return r
}

// Table writes the model for people. Ages are relative to now.
func (r Region) Table(out io.Writer, now time.Time) error {
	w := newTable(now)
	w.row("REGION", "STATE", "MESSAGE")
	w.row(dash(r.Region), word(r.Ready, "Ready", "NotReady"), dash(r.Message))
	w.controlPlane(r.ControlPlane)
	w.servers(r.Servers)
	w.hosts(r.Hosts)
	for _, c := range r.OpenStack {
		w.openstack(c)
	}
	return w.writeTo(out)
}
