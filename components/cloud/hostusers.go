package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
)

// HostUsers are the desired users of a cluster's compute hosts.
type HostUsers struct {
	// Project in which the users have Role; they have no other role.
	Project, Role string
	// Prefix of the names of all such users.
	Prefix string
	Users  []User
	// Keep are users that stay unchanged: those of hosts that are leaving the cluster but still run
	// guests.
	Keep []string
}

// mark is the description of a host's user. It has a digest of the password, because only a login
// tells which password Keystone has, and that costs it a fraction of a second each time.
func mark(password string) string {
	sum := sha256.Sum256([]byte(password))
	return keptForHost + ", password " + hex.EncodeToString(sum[:8])
}

// keptForHost begins the description of hosts' users. It has no UID of a cluster: a Keystone
// belongs to one cluster, and a cluster that was removed and declared again has another UID but the
// same users.
const keptForHost = "compute host, kept by regiond"

// EnsureHostUsers reconciles the users of hosts with the desired ones, and deletes those of hosts
// that are gone: a host's credentials end with it. Other users are left alone; one with a host's
// name is an error. It is idempotent, and returns descriptions of its changes.
func (s *Session) EnsureHostUsers(ctx context.Context, h HostUsers) (changed []string, err error) {
	e := &ensurer{identity: s.identity(), session: s}
	if err := e.hostUsers(ctx, h); err != nil {
		return e.changed, fmt.Errorf("keystone %s: %w", s.url, err)
	}
	return e.changed, nil
}

func (e *ensurer) hostUsers(ctx context.Context, h HostUsers) error {
	domain, err := e.domain(ctx)
	if err != nil {
		return err
	}
	project, err := e.project(ctx, h.Project, domain)
	if err != nil {
		return err
	}
	role, err := e.role(ctx, h.Role)
	if err != nil {
		return err
	}
	known, err := list(ctx, users.List(e.identity, users.ListOpts{DomainID: domain, Filters: map[string]string{"name__startswith": h.Prefix}}),
		users.ExtractUsers)
	if err != nil {
		return fmt.Errorf("list users: %w", err)
	}
	assigned, err := list(ctx, roles.ListAssignments(e.identity, roles.ListAssignmentsOpts{RoleID: role, ScopeProjectID: project}),
		roles.ExtractRoleAssignments)
	if err != nil {
		return fmt.Errorf("list assignments of role %s: %w", h.Role, err)
	}
	var errs []error
	for _, u := range h.Users {
		id, err := e.hostUser(ctx, h, u, domain, known)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.ContainsFunc(assigned, func(a roles.RoleAssignment) bool { return a.User.ID == id }) {
			continue
		}
		if err := roles.Assign(ctx, e.identity, role, roles.AssignOpts{UserID: id, ProjectID: project}).ExtractErr(); err != nil {
			errs = append(errs, fmt.Errorf("give user %s the role %s: %w", u.Name, h.Role, err))
			continue
		}
		e.did("user %s was given the role %s", u.Name, h.Role)
	}
	return errors.Join(append(errs, e.pruneHostUsers(ctx, h, known))...)
}

// hostUser ensures one user, and returns its ID.
func (e *ensurer) hostUser(ctx context.Context, h HostUsers, u User, domain string, known []users.User) (string, error) {
	named := filter(known, func(k users.User) bool { return k.Name == u.Name })
	have, err := atMostOne("user", u.Name, named, func(u users.User) string { return u.ID })
	if err != nil {
		return "", err
	}
	enabled, description := true, mark(u.Password)
	switch {
	case have == nil:
		have, err = users.Create(ctx, e.identity, users.CreateOpts{Name: u.Name, DomainID: domain, Password: u.Password, Description: description,
			Enabled: &enabled}).Extract()
		if err != nil {
			return "", fmt.Errorf("create user %s: %w", u.Name, err)
		}
		e.did("user %s created", u.Name)
	case !strings.HasPrefix(have.Description, keptForHost):
		return "", fmt.Errorf("user %s is needed for the compute host of that name, but a user of that name exists that regiond did not create (%s); "+
			"rename it or delete it", u.Name, have.ID)
	case have.Description != description || !have.Enabled:
		if _, err := users.Update(ctx, e.identity, have.ID, users.UpdateOpts{Password: u.Password, Description: &description,
			Enabled: &enabled}).Extract(); err != nil {
			return "", fmt.Errorf("set the password of user %s: %w", u.Name, err)
		}
		e.did("the password of user %s was set to the declared one", u.Name)
	}
	return have.ID, nil
}

// pruneHostUsers deletes the users of hosts that are gone.
func (e *ensurer) pruneHostUsers(ctx context.Context, h HostUsers, known []users.User) error {
	var errs []error
	for _, k := range known {
		desired := slices.Contains(h.Keep, k.Name) || slices.ContainsFunc(h.Users, func(u User) bool { return u.Name == k.Name })
		if desired || !strings.HasPrefix(k.Description, keptForHost) {
			continue
		}
		err := users.Delete(ctx, e.identity, k.ID).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			errs = append(errs, fmt.Errorf("delete user %s: %w", k.Name, err))
			continue
		}
		e.did("user %s deleted because its host is gone", k.Name)
	}
	return errors.Join(errs...)
}
