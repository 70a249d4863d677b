// Package cloud speaks to the identity service of one OpenStack cluster as its administrator: it logs in, and
// keeps the catalogue, projects, roles and service users as they are declared.
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

// Domain that all of regiond's projects and users are in. Keystone makes it, https://docs.openstack.org/keystone (bootstrap).
const Domain = "Default"

// Credentials of a user, scoped to a project.
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
	// Expires is when the token ends.
	Expires time.Time

	url string
}

// requestTimeout bounds one request, also where the caller's context has no deadline.
const requestTimeout = 30 * time.Second

// Login asks for a token. No session is kept on the server's side, so there is nothing to end.
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
		return nil, fmt.Errorf("keystone %s: a token for user %s in project %s: %w", c.URL, c.User, c.Project, err)
	}
	project, err := result.ExtractProject()
	if err != nil {
		return nil, fmt.Errorf("keystone %s: the project of a token: %w", c.URL, err)
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
		return fmt.Errorf("keystone %s: a token that it issued a moment ago is not valid; are its Fernet keys shared by all its processes?", s.url)
	}
	return nil
}

// Service returns a client of a service at a URL with a slash at its end. The catalogue is not
// used: it may be what has to be repaired.
func (s *Session) Service(kind, url string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{ProviderClient: s.ProviderClient, Endpoint: url, Type: kind}
}

func (s *Session) identity() *gophercloud.ServiceClient {
	return s.Service("identity", s.url+"/v3/")
}
