package openstack

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"regiond.dev/regiond/components/configgen/secrets"
)

// secretFernetKeys is the path of the mapping with Keystone's Fernet keys.
const secretFernetKeys = "keystone.fernet_keys"

const (
	// fernetWeek is how long a key signs tokens that are valid for hours.
	fernetWeek = 7 * 24 * time.Hour
	// fernetMargin is what a rotation takes at most to reach all that sign, with clocks that
	// differ.
	fernetMargin = time.Hour
	// allowExpiredWindow is Keystone's default of [token] allow_expired_window.
	allowExpiredWindow = 48 * time.Hour
)

// RotateFernetKeys returns the secrets of a cluster with Keystone's keys moved on by one. The
// credential keys stay: they encrypt what is in the database.
func RotateFernetKeys(tree map[string]any, random io.Reader) (map[string]any, error) {
	return secrets.RotateFernet(tree, secretFernetKeys, random)
}

// FernetRotates says whether Keystone's keys can rotate with these templates: those of earlier
// versions have them in the configuration that Keystone is started with.
func (c *Composer) FernetRotates() bool { return slices.Contains(c.source.Roles(), RoleFernet) }

// FernetPeriod is the time between rotations of Keystone's keys: a week, or more if tokens are
// valid for longer. A key is dropped one period after it has signed its last token, and that one
// may be shown for allow_expired_window beyond its expiration, by a service that goes on with what
// a user began.
func (s *State) FernetPeriod() time.Duration {
	valid := s.seconds(time.Hour, "keystone.conf.token.expiration", "keystone.token_expiration") +
		s.seconds(allowExpiredWindow, "keystone.conf.token.allow_expired_window")
	return max(fernetWeek, valid+fernetMargin)
}

// seconds of the first of the values that is set. Values of options were checked against their
// types when they were rendered.
func (s *State) seconds(otherwise time.Duration, paths ...string) time.Duration {
	for _, path := range paths {
		v, ok := s.Values.Lookup(path)
		if n, err := strconv.ParseInt(fmt.Sprint(v), 10, 32); ok && err == nil {
			return time.Duration(n) * time.Second
		}
	}
	return otherwise
}
