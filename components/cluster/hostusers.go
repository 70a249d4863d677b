package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"

	"regiond.dev/regiond/components/broker"
	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/openstack"
)

// Each compute host has users of its own, so that one that is broken into is not all of them, and
// has not the rights of the services.

// HostUsers are the users of a cluster's compute hosts.
type HostUsers struct {
	Keystone cloud.HostUsers
	RabbitMQ []broker.User
}

// hostUsers that are desired; ok is false if hosts have the services' users, as with the templates of earlier versions.
func (t *reconciliation) hostUsers() (h HostUsers, of string, ok bool) {
	if t.state == nil || t.composer == nil || !t.composer.HostUsers() {
		return h, "", false
	}
	h.Keystone = cloud.HostUsers{Project: serviceProject, Role: "service", Prefix: openstack.HostUser("")}
	for _, host := range t.input.Hosts {
		p, known := t.input.HostPasswords(host)
		if !known {
			continue
		}
		name := openstack.HostUser(host.Name)
		h.Keystone.Users = append(h.Keystone.Users, cloud.User{Name: name, Password: p.Keystone})
		h.RabbitMQ = append(h.RabbitMQ, broker.Host(name, p.RabbitMQ, host.Name))
	}
	for _, l := range t.facts.Leaving {
		h.Keystone.Keep = append(h.Keystone.Keep, openstack.HostUser(l.Name))
	}
	b, err := json.Marshal(h) // of strings only: does not fail
	if err != nil {
		return h, "", false
	}
	sum := sha256.Sum256(b)
	return h, hex.EncodeToString(sum[:]), true
}

// usersMissing is why hosts must not be given their configuration yet: what is in it would be refused.
func (t *reconciliation) usersMissing() string {
	_, of, ok := t.hostUsers()
	switch {
	case !ok || t.seen.users.of == of:
		return ""
	case t.seen.usersError != "":
		return "its users can't be made: " + t.seen.usersError
	}
	return "its users are about to be made"
}

// ensureHostUsers brings the users of hosts to what is desired before a host gets a configuration with their passwords.
func (t *reconciliation) ensureHostUsers(ctx context.Context) {
	h, of, ok := t.hostUsers()
	if !ok || t.seen.users.holds(of, t.Now()) || t.seen.usersTried.early(of, t.Now()) || !t.reachable || t.seen.session == nil {
		return
	}
	changed, err := t.Cloud.EnsureHostUsers(ctx, t.target, t.seen.session, h)
	for _, c := range changed {
		t.log.Info("users of hosts changed", slog.String("change", c))
	}
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		t.seen.usersError, t.seen.usersTried = clip(err.Error()), t.seen.usersTried.failed(of, t.Now())
		t.log.Warn("users of hosts are not as desired", slog.Any("error", err))
	} else {
		t.seen.users, t.seen.usersError, t.seen.usersTried = check{of: of, time: t.Now()}, "", attempt{}
	}
	t.facts.UsersMissing = t.usersMissing()
}
