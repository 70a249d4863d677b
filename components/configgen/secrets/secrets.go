// Package secrets generates the secrets of an OpenStack cluster. It stores nothing.
package secrets

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Declared has the declared secrets by path, e.g. keystone.admin_password.
type Declared map[string]Generator

// Generator generates a secret.
type Generator struct {
	// Generate is password, fernet or uuid.
	Generate string
	// Length of a password in characters. Default: 32.
	Length int
	// Count makes the secret a list of that many. 0: a single secret.
	Count int
}

const (
	passwordLength = 32
	// shortest accepted password: 16 letters and digits are 95 bits.
	shortest = 16
	longest  = 255
)

// Declare reads a tree with the leaves {generate: password, length: 32}, {generate: fernet, count:
// 3} or {generate: uuid}.
func Declare(tree map[string]any) (Declared, error) {
	d, errs := Declared{}, []error(nil)
	d.declare(tree, "", &errs)
	return d, errors.Join(errs...)
}

func (d Declared) declare(tree map[string]any, path string, errs *[]error) {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		field := strings.TrimPrefix(path+"."+key, ".")
		object, ok := tree[key].(map[string]any)
		if !ok {
			*errs = append(*errs, fmt.Errorf("%s: must be a mapping, or {generate: password}", field))
			continue
		}
		if _, leaf := object["generate"].(string); !leaf {
			d.declare(object, field, errs)
			continue
		}
		g, err := generator(object)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %w", field, err))
		}
		d[field] = g
	}
}

func generator(object map[string]any) (Generator, error) {
	g := Generator{Length: passwordLength}
	for key, v := range object {
		n, isNumber := v.(int64)
		switch {
		case key == "generate":
			g.Generate, _ = v.(string) // checked by the caller
		case key == "length" && isNumber && n >= shortest && n <= longest:
			g.Length = int(n)
		case key == "count" && isNumber && n >= 1 && n <= longest:
			g.Count = int(n)
		default:
			return g, fmt.Errorf("%s: %v is not understood; fields are generate, length (%d to %d) and count", key, v, shortest, longest)
		}
	}
	if !slices.Contains([]string{"password", "fernet", "uuid"}, g.Generate) {
		return g, fmt.Errorf("generator %q is not known; known: password, fernet and uuid", g.Generate)
	}
	return g, nil
}

// Generate adds secrets that the tree lacks and that have never been generated. existing and
// generated are the previous results (nil at first); neither is modified. It is an error if a
// secret in generated is no longer in the tree, because services still use it; nothing is returned
// then.
func Generate(declared Declared, existing map[string]any, generated []string, random io.Reader) (tree map[string]any, all []string, err error) {
	tree = clone(existing)
	done := map[string]bool{}
	for _, path := range generated {
		done[path] = true
	}
	var lost []error
	for _, path := range slices.Sorted(maps.Keys(declared)) {
		if _, there := Get(tree, path); there {
			done[path] = true
			continue
		}
		if done[path] {
			lost = append(lost, fmt.Errorf("secret %s was generated before and is missing now: services still use it, so it is not generated again; "+
				"restore it, e.g. from a backup, or, if nothing uses it any more, remove %s from the list of generated secrets", path, path))
			continue
		}
		v, err := declared[path].New(random)
		if err != nil {
			return nil, nil, fmt.Errorf("secret %s: %w", path, err)
		}
		if !Put(tree, path, v) {
			return nil, nil, fmt.Errorf("secret %s: a value on its path is not a mapping", path)
		}
		done[path] = true
	}
	if len(lost) > 0 {
		return nil, nil, errors.Join(lost...)
	}
	return tree, slices.Sorted(maps.Keys(done)), nil
}

// New secret of its form: a string, or a list of them.
func (g Generator) New(random io.Reader) (any, error) {
	if g.Count == 0 {
		return g.one(random)
	}
	list := make([]any, g.Count)
	for i := range list {
		s, err := g.one(random)
		if err != nil {
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}

func (g Generator) one(random io.Reader) (string, error) {
	switch g.Generate {
	case "fernet": // 128 bits to sign and 128 to encrypt (Fernet specification)
		key := make([]byte, 32)
		_, err := io.ReadFull(random, key)
		return base64.URLEncoding.EncodeToString(key), err
	case "uuid": // version 4, RFC 9562
		var u [16]byte
		_, err := io.ReadFull(random, u[:])
		u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
		return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), err
	case "password":
		return password(random, g.Length)
	}
	return "", fmt.Errorf("generator %q is not known", g.Generate)
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// password returns a password of letters and digits, which needs no quoting in files, shells or
// URLs. Bytes beyond a multiple of the alphabet's size are dropped, so that all characters are
// equally likely.
func password(random io.Reader, length int) (string, error) {
	const fair = 256 / len(letters) * len(letters)
	out, b := make([]byte, 0, length), make([]byte, 1)
	for len(out) < length {
		if _, err := io.ReadFull(random, b); err != nil {
			return "", err
		}
		if int(b[0]) < fair {
			out = append(out, letters[int(b[0])%len(letters)])
		}
	}
	return string(out), nil
}

// Get returns the value at a path.
func Get(tree map[string]any, path string) (any, bool) {
	key, rest, below := strings.Cut(path, ".")
	v, ok := tree[key]
	if !below || !ok {
		return v, ok
	}
	object, _ := v.(map[string]any) // other values have no children
	return Get(object, rest)
}

// Put sets the value at a path and creates mappings on the way. It returns false if a value on the
// way is not a mapping.
func Put(tree map[string]any, path string, v any) bool {
	key, rest, below := strings.Cut(path, ".")
	if !below {
		tree[key] = v
		return true
	}
	if _, ok := tree[key]; !ok {
		tree[key] = map[string]any{}
	}
	object, ok := tree[key].(map[string]any)
	return ok && Put(object, rest, v)
}

func clone(tree map[string]any) map[string]any {
	out := make(map[string]any, len(tree))
	for key, v := range tree {
		if object, ok := v.(map[string]any); ok {
			v = clone(object)
		}
		out[key] = v
	}
	return out
}
