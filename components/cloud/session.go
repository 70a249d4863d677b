// Package cloud is a client of one OpenStack cluster's identity service, as its administrator: it
// logs in, and reconciles the catalogue, projects, roles and service users with their declaration.
package cloud

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Domain of all of regiond's projects and users. Keystone creates it,
// https://docs.openstack.org/keystone (bootstrap).
const Domain = "Default"

// Credentials are those of a user, scoped to a project.
type Credentials struct {
	// URL of the service without version, e.g. http://10.20.0.2:5000.
	URL                     string
	User, Password, Project string
}

// Session is a token and a client that sends it.
type Session struct {
	*gophercloud.ProviderClient
	// ProjectID of the project that the token is for.
	ProjectID string
	// Expires is when the token expires.
	Expires time.Time

	url string
}

// requestTimeout bounds one request, even if the caller's context has no deadline.
const requestTimeout = 30 * time.Second

// Login requests a token. The server keeps no session, so there is no logout.
func Login(ctx context.Context, c Credentials) (*Session, error) {
	p, err := openstack.NewClient(c.URL + "/v3/")
	if err != nil {
		return nil, fmt.Errorf("keystone %s: %w", c.URL, err)
	}
	p.HTTPClient = http.Client{Timeout: requestTimeout}
	s := &Session{ProviderClient: p, url: c.URL}
	result := tokens.Create(ctx, s.identity(), &tokens.AuthOptions{Username: c.User, Password: c.Password, DomainName: Domain,
		Scope: tokens.Scope{ProjectName: c.Project, DomainName: Domain}})
	token, err := result.ExtractToken()
	if err != nil {
		return nil, fmt.Errorf("keystone %s: get a token for user %s in project %s: %w", c.URL, c.User, c.Project, err)
	}
	project, err := result.ExtractProject()
	if err != nil {
		return nil, fmt.Errorf("keystone %s: read the project of a token: %w", c.URL, err)
	}
	p.SetToken(token.ID)
	s.Expires = token.ExpiresAt
	if project != nil {
		s.ProjectID = project.ID
	}
	return s, nil
}

// Validate has the server check the session's own token.
func (s *Session) Validate(ctx context.Context) error {
	ok, err := tokens.Validate(ctx, s.identity(), s.Token())
	if err != nil {
		return fmt.Errorf("keystone %s: validate a token: %w", s.url, err)
	}
	if !ok {
		return fmt.Errorf("keystone %s: a token that it has just issued is not valid; check that all its processes share their Fernet keys", s.url)
	}
	return nil
}

// Service returns a client of a service at a URL that ends with a slash. It does not use the
// catalogue, which may be what has to be repaired.
func (s *Session) Service(kind, url string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{ProviderClient: s.ProviderClient, Endpoint: url, Type: kind}
}

func (s *Session) identity() *gophercloud.ServiceClient {
	return s.Service("identity", s.url+"/v3/")
}
