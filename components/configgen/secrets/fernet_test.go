package secrets

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// keyring declares what the tests rotate.
var keyring = Declared{"keystone.fernet_keys.staged": {Generate: "fernet"}, "keystone.fernet_keys.primary": {Generate: "fernet"},
	"keystone.fernet_keys.secondary": {Generate: "fernet"}, "keystone.admin_password": {Generate: "password", Length: 32}}

func TestRotateFernet(t *testing.T) {
	random := steady()
	tree, _, err := Generate(keyring, nil, nil, random)
	if err != nil {
		t.Fatal(err)
	}
	before := clone(tree)
	key := func(tree map[string]any, name string) string {
		v, _ := Get(tree, "keystone.fernet_keys."+name)
		s, _ := v.(string)
		return s
	}
	after, err := RotateFernet(tree, "keystone.fernet_keys", random)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tree, before) {
		t.Error("the tree that it was given is changed")
	}
	if got, want := key(after, "primary"), key(before, "staged"); got != want {
		t.Error("the primary key is not the one that was staged")
	}
	if got, want := key(after, "secondary"), key(before, "primary"); got != want {
		t.Error("the secondary key is not the one that was primary")
	}
	known := []string{key(before, "staged"), key(before, "primary"), key(before, "secondary")}
	if next := key(after, "staged"); slices.Contains(known, next) || !(Generator{Generate: "fernet"}).fits(next) {
		t.Error("the staged key is not a new one")
	}
	if got, want := slices.Sorted(maps.Keys(after["keystone"].(map[string]any))), []string{"admin_password", "fernet_keys"}; !slices.Equal(got, want) {
		t.Errorf("secrets of keystone: got %v, want %v", got, want)
	}
	if !reflect.DeepEqual(after["keystone"].(map[string]any)["admin_password"], before["keystone"].(map[string]any)["admin_password"]) {
		t.Error("another secret is changed")
	}
}

func TestRotateFernetRefuses(t *testing.T) {
	tree, _, err := Generate(keyring, nil, nil, steady())
	if err != nil {
		t.Fatal(err)
	}
	change := func(path string, v any) map[string]any {
		other := clone(tree)
		Put(other, path, v)
		return other
	}
	for name, tc := range map[string]struct {
		tree map[string]any
		want string
	}{
		"nothing there":   {map[string]any{}, "keystone.fernet_keys.primary is missing"},
		"staged is empty": {change("keystone.fernet_keys.staged", ""), "keystone.fernet_keys.staged is missing or not a Fernet key"},
		"not a key":       {change("keystone.fernet_keys.primary", "S3CRET"), "keystone.fernet_keys.primary is missing or not a Fernet key"},
	} {
		got, err := RotateFernet(tc.tree, "keystone.fernet_keys", steady())
		if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: got %v, want nothing and an error with %q that shows no secret", name, err, tc.want)
		}
	}
	if got, err := RotateFernet(tree, "keystone.fernet_keys", strings.NewReader("short")); err == nil || got != nil {
		t.Errorf("without random bytes: got %v, %v, want an error", got, err)
	}
}
