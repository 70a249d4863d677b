package secrets

import (
	"reflect"
	"strings"
	"testing"
)

func TestTake(t *testing.T) {
	store, _, err := Generate(declared, nil, nil, steady())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Take(declared, store, map[string]any{"own": map[string]any{"ldap": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	want := clone(store)
	want["own"] = map[string]any{"ldap": "x"}
	if !reflect.DeepEqual(tree, want) {
		t.Errorf("got %v, want %v", tree, want)
	}
	if again, err := Take(declared, store, tree); err != nil || !reflect.DeepEqual(again, tree) {
		t.Errorf("taken again: got %v, %v, want no change", again, err)
	}
	change := func(path string, v any) map[string]any {
		other := clone(store)
		if Put(other, path, v); v == nil {
			delete(other, path)
		}
		return other
	}
	for name, tc := range map[string]struct {
		from map[string]any
		want string
	}{
		"missing":       {change("cell", nil), "cell is missing; it is a UUID"},
		"not a uuid":    {change("cell", "S3CRET"), "cell is not a UUID"},
		"short":         {change("keystone.admin_password", "S3CRET"), "keystone.admin_password is not a password of 16 to 255 letters and digits"},
		"quoted":        {change("keystone.admin_password", "S3CRET'; DROP TABLE x"), "is not a password of"},
		"not a key":     {change("keystone.fernet", []any{"S3CRET", "a", "b"}), "keystone.fernet is not a list of 3, each a Fernet key"},
		"one too few":   {change("keystone.fernet", []any{}), "is not a list of 3"},
		"another one":   {change("keystone.admin_password", "S3CRETS3CRETS3CRET"), "keystone.admin_password is not the one that services use"},
		"a text for it": {change("keystone", "S3CRET"), "keystone.admin_password is missing"},
	} {
		if _, err := Take(declared, tc.from, tree); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: got %v, want %q without the secret", name, err, tc.want)
		}
	}
}
