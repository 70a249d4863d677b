package secrets

import (
	"bytes"
	"encoding/base64"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// steady returns a stream of bytes that is the same in every run.
func steady() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

var declared = Declared{
	"keystone.admin_password": {Generate: "password", Length: 32}, "keystone.fernet": {Generate: "fernet", Count: 3}, "cell": {Generate: "uuid"},
}

func TestGenerate(t *testing.T) {
	tree, all, err := Generate(declared, nil, nil, steady())
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(maps.Keys(declared)); !slices.Equal(all, want) {
		t.Errorf("generated %v, want %v", all, want)
	}
	if p, _ := Get(tree, "keystone.admin_password"); !regexp.MustCompile(`^[A-Za-z0-9]{32}$`).MatchString(p.(string)) {
		t.Errorf("password %q", p)
	}
	if u, _ := Get(tree, "cell"); !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(u.(string)) {
		t.Errorf("uuid %q", u)
	}
	list, _ := Get(tree, "keystone.fernet")
	for _, k := range list.([]any) {
		if b, err := base64.URLEncoding.DecodeString(k.(string)); err != nil || len(b) != 32 {
			t.Errorf("fernet key %q: %v", k, err)
		}
	}
	again, same, err := Generate(declared, tree, all, bytes.NewReader(nil)) // no random bytes are needed
	if err != nil || !reflect.DeepEqual(again, tree) || !slices.Equal(same, all) {
		t.Errorf("a second run changed something: %v", err)
	}
}

func TestGenerateKeepsAndAdds(t *testing.T) {
	existing := map[string]any{"keystone": map[string]any{"admin_password": "mine"}, "own": "extra"}
	tree, all, err := Generate(declared, existing, nil, steady())
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := Get(tree, "keystone.admin_password"); p != "mine" || tree["own"] != "extra" || len(all) != 3 {
		t.Errorf("got %v and %v, want the existing secrets kept and the others added", tree, all)
	}
	if len(existing["keystone"].(map[string]any)) != 1 {
		t.Error("the existing tree was changed")
	}
}

func TestLostSecret(t *testing.T) {
	tree, all, err := Generate(declared, nil, nil, steady())
	if err != nil {
		t.Fatal(err)
	}
	delete(tree["keystone"].(map[string]any), "admin_password")
	again, _, err := Generate(declared, tree, all, steady())
	if err == nil || again != nil || !strings.Contains(err.Error(), "secret keystone.admin_password was generated before and is missing now") {
		t.Errorf("got %v and %v, want an error that names the secret", again, err)
	}
}

func TestGenerateFails(t *testing.T) {
	if _, _, err := Generate(declared, nil, nil, bytes.NewReader(nil)); err == nil {
		t.Error("got secrets although there were no random bytes")
	}
	if _, _, err := Generate(declared, map[string]any{"keystone": "x"}, nil, steady()); err == nil || strings.Contains(err.Error(), `"x"`) {
		t.Errorf("got %v, want an error without the value", err)
	}
}

func TestDeclare(t *testing.T) {
	got, err := Declare(map[string]any{"a": map[string]any{"b": map[string]any{"generate": "password", "length": int64(20)},
		"c": map[string]any{"generate": "fernet", "count": int64(2)}}})
	want := Declared{"a.b": {Generate: "password", Length: 20}, "a.c": {Generate: "fernet", Length: 32, Count: 2}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	for _, bad := range []map[string]any{{"a": "x"}, {"a": map[string]any{"generate": "rsa"}}, {"a": map[string]any{"generate": "password",
		"length": int64(4)}},
		{"a": map[string]any{"generate": "password", "lenght": int64(40)}}} {
		if _, err := Declare(bad); err == nil || !strings.HasPrefix(err.Error(), "a: ") {
			t.Errorf("%v: got %v, want a refusal", bad, err)
		}
	}
}
