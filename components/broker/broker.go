// Package broker manages RabbitMQ's users and their permissions through its management API
// (https://www.rabbitmq.com/docs/management#http-api).
package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Admin reaches the management API as an administrator.
type Admin struct {
	// Address is host:port.
	Address        string
	User, Password string
}

// User is a user of the broker with all of its permissions.
type User struct {
	Name, Password string
	Permissions    []Permission
	Topics         []TopicPermission
}

// Permission grants access to queues and exchanges of a virtual host by regular expressions of
// their names (https://www.rabbitmq.com/docs/access-control#authorisation).
type Permission struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// TopicPermission restricts the routing keys of a topic exchange that a user may publish with and
// bind to.
type TopicPermission struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

// tag marks the users that this package manages. Other users are neither changed nor deleted.
const tag = "regiond-host"

// account is a user as the API returns it.
type account struct {
	Name      string   `json:"name"`
	Hash      string   `json:"password_hash"`
	Algorithm string   `json:"hashing_algorithm"`
	Tags      []string `json:"tags"`
}

// Ensure reconciles the tagged users with the desired ones, and deletes those that are neither
// desired nor listed in keep, which stay unchanged. It is idempotent, writes only differences, and
// returns descriptions of its changes.
func (a Admin) Ensure(ctx context.Context, desired []User, keep []string) (changed []string, err error) {
	var accounts []account
	var permissions []Permission
	var topics []TopicPermission
	err = errors.Join(a.get(ctx, "users", &accounts), a.get(ctx, "permissions", &permissions), a.get(ctx, "topic-permissions", &topics))
	if err != nil {
		return nil, err
	}
	did := func(format string, args ...any) { changed = append(changed, fmt.Sprintf(format, args...)) }
	var errs []error
	for _, u := range desired {
		i := slices.IndexFunc(accounts, func(k account) bool { return k.Name == u.Name })
		if i >= 0 && !slices.Contains(accounts[i].Tags, tag) {
			errs = append(errs, fmt.Errorf("rabbitmq %s: user %s is needed for the compute host of that name, but a user of that name exists that "+
				"regiond did not create; delete it", a.Address, u.Name))
			continue
		}
		// Restrict permissions first, so that no user has more of them at any time.
		wrote, err := a.ensure(ctx, u, i < 0 || !accounts[i].has(u.Password), permissions, topics)
		if err != nil {
			errs = append(errs, err)
		}
		if wrote {
			did("user %s updated", u.Name)
		}
	}
	for _, k := range accounts {
		if !slices.Contains(k.Tags, tag) || slices.Contains(keep, k.Name) || slices.ContainsFunc(desired, func(u User) bool { return u.Name == k.Name }) {
			continue
		}
		if err := a.do(ctx, http.MethodDelete, nil, nil, "users", k.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		did("user %s deleted because its host is gone", k.Name)
	}
	return changed, errors.Join(errs...)
}

func (a Admin) ensure(ctx context.Context, u User, account bool, permissions []Permission, topics []TopicPermission) (wrote bool, err error) {
	if account {
		if err := a.do(ctx, http.MethodPut, map[string]string{"password": u.Password, "tags": tag}, nil, "users", u.Name); err != nil {
			return false, err
		}
		wrote = true
	}
	for _, p := range u.Permissions {
		if p.User = u.Name; slices.Contains(permissions, p) {
			continue
		}
		if err := a.do(ctx, http.MethodPut, p, nil, "permissions", p.VHost, u.Name); err != nil {
			return wrote, err
		}
		wrote = true
	}
	for _, p := range u.Topics {
		if p.User = u.Name; slices.Contains(topics, p) {
			continue
		}
		if err := a.do(ctx, http.MethodPut, p, nil, "topic-permissions", p.VHost, u.Name); err != nil {
			return wrote, err
		}
		wrote = true
	}
	return wrote, nil
}

// has reports whether a password is the account's: the hash begins with a salt of four bytes
// (https://www.rabbitmq.com/docs/passwords#computing-password-hash).
func (k account) has(password string) bool {
	const salt = 4
	b, err := base64.StdEncoding.DecodeString(k.Hash)
	if err != nil || len(b) != salt+sha256.Size || k.Algorithm != "rabbit_password_hashing_sha256" {
		return false
	}
	sum := sha256.Sum256(append(bytes.Clone(b[:salt]), password...))
	return subtle.ConstantTimeCompare(sum[:], b[salt:]) == 1
}

func (a Admin) get(ctx context.Context, path string, into any) error {
	return a.do(ctx, http.MethodGet, nil, into, path)
}

// requestTimeout bounds one request, and maxAnswer the bytes read of its response.
const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 64 << 20
)

func (a Admin) do(ctx context.Context, method string, body, into any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u := "http://" + a.Address + "/api"
	for _, p := range path {
		u += "/" + url.PathEscape(p)
	}
	fail := func(err error) error { return fmt.Errorf("rabbitmq %s: %s %s: %w", a.Address, method, path, err) }
	b, err := json.Marshal(body)
	if err != nil {
		return fail(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(b))
	if err != nil {
		return fail(err)
	}
	r.SetBasicAuth(a.User, a.Password)
	r.Header.Set("Content-Type", "application/json")
	// Never use a proxy for the region's own addresses.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return fail(err)
	case method == http.MethodDelete && resp.StatusCode == http.StatusNotFound:
		return nil
	case resp.StatusCode >= 300:
		return fail(fmt.Errorf("%s: %.200s", resp.Status, answer))
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fail(err)
	}
	return nil
}
