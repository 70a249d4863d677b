package secrets

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// plain matches passwords that need no quoting in files, shells or URLs, like the generated ones.
var plain = regexp.MustCompile(`^[A-Za-z0-9]+$`)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Form describes the form of a valid secret.
func (g Generator) Form() string {
	form := "a UUID (RFC 9562)"
	switch g.Generate {
	case "password":
		form = fmt.Sprintf("a password of %d to %d letters and digits", shortest, longest)
	case "fernet":
		form = "a Fernet key (32 bytes in URL-safe Base64)"
	}
	if g.Count > 0 {
		return fmt.Sprintf("a list of %d, each %s", g.Count, form)
	}
	return form
}

// fits reports whether a value could have been generated.
func (g Generator) fits(v any) bool {
	if g.Count > 0 {
		list, isList := v.([]any)
		return isList && len(list) == g.Count && !slices.ContainsFunc(list, func(item any) bool { return !g.fitsOne(item) })
	}
	return g.fitsOne(v)
}

func (g Generator) fitsOne(v any) bool {
	s, isString := v.(string)
	switch {
	case !isString:
		return false
	case g.Generate == "fernet":
		key, err := base64.URLEncoding.DecodeString(s)
		return err == nil && len(key) == 32
	case g.Generate == "uuid":
		return uuid.MatchString(s)
	}
	return len(s) >= shortest && len(s) <= longest && plain.MatchString(s)
}

// Missing are the paths of declared secrets that a tree does not have, sorted.
func Missing(declared Declared, tree map[string]any) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(declared)), func(path string) bool {
		_, there := Get(tree, path)
		return there
	})
}

// Take returns a copy of the tree into with the declared secrets from another store. It reports all
// secrets that are missing, do not have their form, or differ from those in the tree, which
// services already use. Errors do not show secrets.
func Take(declared Declared, from, into map[string]any) (map[string]any, error) {
	tree := clone(into)
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(declared)) {
		v, there := Get(from, path)
		old, held := Get(into, path)
		switch {
		case !there:
			errs = append(errs, fmt.Errorf("%s is missing; it is %s", path, declared[path].Form()))
		case !declared[path].fits(v):
			errs = append(errs, fmt.Errorf("%s is not %s", path, declared[path].Form()))
		case held && !reflect.DeepEqual(old, v):
			errs = append(errs, fmt.Errorf("%s is not the one that services use; restore the previous one", path))
		case !Put(tree, path, v):
			errs = append(errs, fmt.Errorf("%s: a value on its path is not a mapping", path))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return tree, nil
}
