// Package account reads a host's users and groups from passwd(5) and group(5). The files of regiond's images are all there is:
// no name service is asked, so that a host can start what it runs without a network.
package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Accounts of a host.
type Accounts struct {
	users  []User
	groups []group
}

// User of a host.
type User struct {
	Name     string
	UID, GID uint32
	Home     string
	Shell    string
}

type group struct {
	name    string
	gid     uint32
	members []string
}

// Read reads the accounts below root, which is / on a real system. A file that is missing holds nobody.
func Read(root string) (*Accounts, error) {
	a := &Accounts{}
	err := lines(filepath.Join(root, "etc/passwd"), 7, func(f []string) error {
		uid, e1 := strconv.ParseUint(f[2], 10, 32)
		gid, e2 := strconv.ParseUint(f[3], 10, 32)
		a.users = append(a.users, User{f[0], uint32(uid), uint32(gid), f[5], f[6]})
		return errors.Join(e1, e2)
	})
	if err != nil {
		return nil, err
	}
	return a, lines(filepath.Join(root, "etc/group"), 4, func(f []string) error {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		a.groups = append(a.groups, group{f[0], uint32(gid), strings.Split(f[3], ",")})
		return err
	})
}

func lines(path string, fields int, take func([]string) error) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.SplitSeq(string(b), "\n") {
		n++
		if line == "" || strings.ContainsAny(line[:1], "#+-") {
			continue
		}
		f := strings.Split(line, ":")
		if len(f) < fields {
			return fmt.Errorf("%s:%d: %d fields, not %d", path, n, len(f), fields)
		}
		if err := take(f); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return nil
}

// User by name or number.
func (a *Accounts) User(name string) (User, error) {
	for _, u := range a.users {
		if u.Name == name || strconv.FormatUint(uint64(u.UID), 10) == name {
			return u, nil
		}
	}
	return User{}, fmt.Errorf("there is no user %q in /etc/passwd; does the image have the package that makes it?", name)
}

// Group is the number of a group by its name or number.
func (a *Accounts) Group(name string) (uint32, error) {
	for _, g := range a.groups {
		if g.name == name || strconv.FormatUint(uint64(g.gid), 10) == name {
			return g.gid, nil
		}
	}
	return 0, fmt.Errorf("there is no group %q in /etc/group; does the image have the package that makes it?", name)
}

// GroupsOf a user beside its own.
func (a *Accounts) GroupsOf(user string) []uint32 {
	var found []uint32
	for _, g := range a.groups {
		if slices.Contains(g.members, user) {
			found = append(found, g.gid)
		}
	}
	return found
}

// UserName of a number; the number itself when it has none.
func (a *Accounts) UserName(uid uint32) string {
	for _, u := range a.users {
		if u.UID == uid {
			return u.Name
		}
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// GroupName of a number; the number itself when it has none.
func (a *Accounts) GroupName(gid uint32) string {
	for _, g := range a.groups {
		if g.gid == gid {
			return g.name
		}
	}
	return strconv.FormatUint(uint64(gid), 10)
}
