package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"regiond.dev/regiond/region/condition"
)

// Catalogue is the desired content of a Keystone.
type Catalogue struct {
	// Owner is the UID of the OpenStackCluster; endpoints are marked with it.
	Owner string
	// Region of all endpoints, e.g. RegionOne.
	Region string
	// Project of the service users.
	Project string
	// Roles that each service user has in Project.
	Roles    []string
	Users    []User
	Services []Service
	// Verified: the users' passwords are known to be correct and are not tried again, which costs
	// Keystone a fraction of a second each time.
	Verified bool
}

// User is the user of a service.
type User struct{ Name, Password string }

// Service has one URL for its public, internal and admin endpoints.
type Service struct{ Name, Type, URL string }

// AmbiguousError: several objects match. Retrying does not help, and regiond does not choose
// between them.
type AmbiguousError struct {
	Kind, Name string
	IDs        []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("keystone has %d of %s %s: %s; delete all but one: regiond openstack -- ...", len(e.IDs), e.Kind, e.Name, condition.List(e.IDs, ", "))
}

// Ensure reconciles Keystone with the catalogue. It is idempotent, can be repeated after an
// interruption, and writes only differences. It leaves everything else in Keystone alone. It
// returns descriptions of its changes.
func (s *Session) Ensure(ctx context.Context, c Catalogue) (changed []string, err error) {
	e := &ensurer{identity: s.identity(), session: s}
	for _, step := range []func(context.Context, Catalogue) error{e.access, e.services} {
		if err := step(ctx, c); err != nil {
			return e.changed, fmt.Errorf("keystone %s: %w", s.url, err)
		}
	}
	return e.changed, nil
}

type ensurer struct {
	identity *gophercloud.ServiceClient
	session  *Session
	changed  []string
}

func (e *ensurer) did(format string, args ...any) {
	e.changed = append(e.changed, fmt.Sprintf(format, args...))
}

// access ensures the project, the roles, the users, and each role of each user.
func (e *ensurer) access(ctx context.Context, c Catalogue) error {
	domain, err := e.domain(ctx)
	if err != nil {
		return err
	}
	project, err := e.project(ctx, c.Project, domain)
	if err != nil {
		return err
	}
	roleIDs := make([]string, len(c.Roles))
	for i, name := range c.Roles {
		if roleIDs[i], err = e.role(ctx, name); err != nil {
			return err
		}
	}
	var errs []error
	for _, u := range c.Users {
		errs = append(errs, e.user(ctx, u, c, domain, project, roleIDs))
	}
	return errors.Join(errs...)
}

func (e *ensurer) domain(ctx context.Context) (string, error) {
	type domain struct {
		ID string `json:"id"`
	}
	var found struct {
		Domains []domain `json:"domains"`
	}
	resp, err := e.identity.Get(ctx, e.identity.ServiceURL("domains")+"?name="+Domain, &found, nil)
	if _, _, err = gophercloud.ParseResponse(resp, err); err != nil {
		return "", fmt.Errorf("list domains: %w", err)
	}
	d, err := atMostOne("domain", Domain, found.Domains, func(d domain) string { return d.ID })
	if err == nil && d == nil {
		err = fmt.Errorf("there is no domain %s; the job schema-keystone creates it", Domain)
	}
	if err != nil {
		return "", err
	}
	return d.ID, nil
}

func (e *ensurer) project(ctx context.Context, name, domain string) (string, error) {
	all, err := list(ctx, projects.List(e.identity, projects.ListOpts{Name: name, DomainID: domain}), projects.ExtractProjects)
	if err != nil {
		return "", fmt.Errorf("list projects: %w", err)
	}
	p, err := atMostOne("project", name, all, func(p projects.Project) string { return p.ID })
	if err != nil {
		return "", err
	}
	if p == nil {
		if p, err = projects.Create(ctx, e.identity, projects.CreateOpts{Name: name, DomainID: domain,
			Description: "Users of the services"}).Extract(); err != nil {
			return "", fmt.Errorf("create project %s: %w", name, err)
		}
		e.did("project %s created", name)
	}
	return p.ID, nil
}

func (e *ensurer) role(ctx context.Context, name string) (string, error) {
	all, err := list(ctx, roles.List(e.identity, roles.ListOpts{Name: name}), roles.ExtractRoles)
	if err != nil {
		return "", fmt.Errorf("list roles: %w", err)
	}
	r, err := atMostOne("role", name, all, func(r roles.Role) string { return r.ID })
	if err != nil {
		return "", err
	}
	if r == nil {
		if r, err = roles.Create(ctx, e.identity, roles.CreateOpts{Name: name}).Extract(); err != nil {
			return "", fmt.Errorf("create role %s: %w", name, err)
		}
		e.did("role %s created", name)
	}
	return r.ID, nil
}

func (e *ensurer) user(ctx context.Context, u User, c Catalogue, domain, project string, roleIDs []string) error {
	all, err := list(ctx, users.List(e.identity, users.ListOpts{Name: u.Name, DomainID: domain}), users.ExtractUsers)
	if err != nil {
		return fmt.Errorf("list users: %w", err)
	}
	have, err := atMostOne("user", u.Name, all, func(u users.User) string { return u.ID })
	if err != nil {
		return err
	}
	created := have == nil
	enabled := true
	switch {
	case created:
		if have, err = users.Create(ctx, e.identity, users.CreateOpts{Name: u.Name, DomainID: domain, Password: u.Password,
			Enabled: &enabled}).Extract(); err != nil {
			return fmt.Errorf("create user %s: %w", u.Name, err)
		}
		e.did("user %s created", u.Name)
	case !have.Enabled:
		if _, err := users.Update(ctx, e.identity, have.ID, users.UpdateOpts{Enabled: &enabled}).Extract(); err != nil {
			return fmt.Errorf("enable user %s: %w", u.Name, err)
		}
		e.did("user %s enabled", u.Name)
	}
	granted, err := list(ctx, roles.ListAssignmentsOnResource(e.identity, roles.ListAssignmentsOnResourceOpts{UserID: have.ID, ProjectID: project}),
		roles.ExtractRoles)
	if err != nil {
		return fmt.Errorf("list roles of user %s: %w", u.Name, err)
	}
	for i, id := range roleIDs {
		if slices.ContainsFunc(granted, func(r roles.Role) bool { return r.ID == id }) {
			continue
		}
		if err := roles.Assign(ctx, e.identity, id, roles.AssignOpts{UserID: have.ID, ProjectID: project}).ExtractErr(); err != nil {
			return fmt.Errorf("give user %s the role %s: %w", u.Name, c.Roles[i], err)
		}
		e.did("user %s was given the role %s", u.Name, c.Roles[i])
	}
	if created || c.Verified {
		return nil
	}
	return e.password(ctx, u, c, have.ID)
}

// password sets a user's password if it differs from the declared one, e.g. after the secrets were
// rotated. Only a login tells whether it differs.
func (e *ensurer) password(ctx context.Context, u User, c Catalogue, id string) error {
	_, err := Login(ctx, Credentials{URL: e.session.url, User: u.Name, Password: u.Password, Project: c.Project})
	if err == nil || !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		return err
	}
	if _, err := users.Update(ctx, e.identity, id, users.UpdateOpts{Password: u.Password}).Extract(); err != nil {
		return fmt.Errorf("set the password of user %s: %w", u.Name, err)
	}
	e.did("the password of user %s was set to the declared one", u.Name)
	return nil
}

// list returns the items of all pages.
func list[T any](ctx context.Context, p pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	page, err := p.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return extract(page)
}

func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(t T) bool { return !keep(t) })
}

// atMostOne returns nil if nothing was found.
func atMostOne[T any](kind, name string, found []T, id func(T) string) (*T, error) {
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	}
	e := &AmbiguousError{Kind: kind, Name: name}
	for _, f := range found {
		e.IDs = append(e.IDs, id(f))
	}
	return nil, e
}
