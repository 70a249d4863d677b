// Package credentials brings BMC credentials from files on the seed host into encrypted Secrets. The
// files say what is wanted: they are read again when they change, and every minute in case a change
// was missed. region.yaml names the files and never holds a secret.
package credentials

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
)

// Credential is a BMC user.
type Credential struct {
	Username string `yaml:"username"`
	Password string `yaml:"password"`
	// BMCKey is the BMC's own key (IPMI's K_G) where it has one: text, or 0x and hexadecimal digits.
	BMCKey string `yaml:"bmcKey"`
}

// maxFile bounds a credentials file in bytes: a path to something else is not read whole.
const maxFile = 64 << 10

// Limits of IPMI v2.0 (specification sections 22.28, 22.30 and 22.25): 16 bytes of user name, 20 of password, 20 of key.
const (
	maxUsername = 16
	maxPassword = 20
	maxKey      = 20
)

// Check says why a file can't be used, nil if it can. Its error never holds what the file says.
func Check(path string) error {
	_, err := Read(path)
	return err
}

// Read reads a credentials file. Its error never holds what the file says.
func Read(path string) (Credential, error) {
	f, err := os.Open(path)
	if err != nil {
		return Credential{}, fmt.Errorf("%w; write a file with the keys username and password there, mode 0600", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Credential{}, err
	}
	if err := private(path, info); err != nil {
		return Credential{}, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Credential{}, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return Credential{}, fmt.Errorf("%s is larger than %d bytes, so it is not a credentials file", path, maxFile)
	}
	var c Credential
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		// yaml's messages quote values, so they are not passed on.
		return Credential{}, fmt.Errorf("%s is not YAML with only the keys username, password and, for a BMC with a key of its own, bmcKey, all strings (quote digits)", path)
	}
	return c, c.validate(path)
}

// private refuses files that others than root may read: a credential that was readable is a leaked one.
func private(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o and may be read by others: chmod 600 %s", path, m, path)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d: chown root %s", path, s.Uid, path)
	}
	return nil
}

func (c Credential) validate(path string) error {
	var errs []error
	if len(c.Username) > maxUsername {
		errs = append(errs, fmt.Errorf("%s: username has %d bytes, IPMI allows %d", path, len(c.Username), maxUsername))
	}
	if c.Password == "" {
		errs = append(errs, fmt.Errorf("%s: password is missing or empty", path))
	}
	if len(c.Password) > maxPassword {
		errs = append(errs, fmt.Errorf("%s: password has %d bytes, IPMI allows %d", path, len(c.Password), maxPassword))
	}
	if key, err := c.Key(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	} else if len(key) > maxKey {
		errs = append(errs, fmt.Errorf("%s: bmcKey has %d bytes, IPMI allows %d", path, len(key), maxKey))
	}
	return errors.Join(errs...)
}

// Key is the BMC key in bytes. Keys that are not text are written in hexadecimal digits, as FreeIPMI does.
func (c Credential) Key() ([]byte, error) {
	digits, ok := strings.CutPrefix(c.BMCKey, "0x")
	if !ok {
		return []byte(c.BMCKey), nil
	}
	key, err := hex.DecodeString(digits)
	if err != nil {
		// Its message quotes the value, so it is not passed on.
		return nil, errors.New("bmcKey begins with 0x, but what follows is not pairs of hexadecimal digits")
	}
	return key, nil
}
