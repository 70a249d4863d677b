package openstack_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// TestRotatedKeysRestartNothing: keys that rotate change one Secret in place, and neither the pods'
// templates nor a host.
func TestRotatedKeysRestartNothing(t *testing.T) {
	c, err := openstack.Default()
	if err != nil {
		t.Fatal(err)
	}
	if !c.FernetRotates() {
		t.Fatal("the keys can't rotate with this program's templates")
	}
	in := programInput(region.ReleaseEpoxy)
	if in.Secrets, _, err = secrets.Generate(c.Source().Secrets(), nil, nil, rand.Reader); err != nil {
		t.Fatal(err)
	}
	before, err := c.Desired(in)
	if err != nil {
		t.Fatal(err)
	}
	if in.Secrets, err = openstack.RotateFernetKeys(in.Secrets, rand.Reader); err != nil {
		t.Fatal(err)
	}
	after, err := c.Next(in, before)
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for i, o := range after.Objects {
		if !bytes.Equal(encoded(t, o), encoded(t, before.Objects[i])) {
			changed = append(changed, o.GetKind()+"/"+o.GetName())
		}
	}
	if got, want := strings.Join(changed, " "), "Secret/config-fernet"; got != want {
		t.Errorf("a rotation changes %q, want %q", got, want)
	}
	if !maps.Equal(before.Digests, after.Digests) {
		t.Errorf("a rotation changes hosts: got %v, want %v", after.Digests, before.Digests)
	}
	had, has := fernetFiles(t, before), fernetFiles(t, after)
	if has["1"] != had["2"] || has["2"] != had["0"] || slices.Contains(slices.Collect(maps.Values(had)), has["0"]) || len(has) != 3 {
		t.Error("the files are not those that keystone-manage would leave: 0 new, the former 0 the highest number, the former highest kept")
	}
}

// TestEarlierTemplatesDoNotRotate: the keys of a cluster that an earlier regiond rolled out are in
// what its Keystone is started with.
func TestEarlierTemplatesDoNotRotate(t *testing.T) {
	c, err := openstack.BeforePins()
	if err != nil {
		t.Fatal(err)
	}
	if c.FernetRotates() {
		t.Error("keys would rotate, and each rotation would start Keystone again")
	}
}

func encoded(t *testing.T, o *unstructured.Unstructured) []byte {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fernetFiles of the pods by their name in the key repository.
func fernetFiles(t *testing.T, s *openstack.State) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, o := range s.Objects {
		if o.GetName() != openstack.ConfigSecret(openstack.RoleFernet) {
			continue
		}
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range data {
			content, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimPrefix(key, "etc.keystone.fernet-keys.")] = strings.TrimSpace(string(content))
		}
	}
	return files
}

func TestFernetPeriod(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		values string
		want   time.Duration
	}{
		"tokens of an hour":           {`{}`, 7 * day},
		"tokens of four days":         {`{"keystone": {"token_expiration": 345600}}`, 7 * day},
		"tokens of a week":            {`{"keystone": {"token_expiration": 604800}}`, 9*day + time.Hour},
		"tokens of a week, as option": {`{"keystone": {"conf": {"token": {"expiration": 604800}}}}`, 9*day + time.Hour},
		"services may be slow":        {`{"keystone": {"conf": {"token": {"allow_expired_window": 864000}}}}`, 10*day + 2*time.Hour},
	} {
		in := programInput(region.ReleaseEpoxy)
		in.Cluster.Spec.Values = &runtime.RawExtension{Raw: []byte(tc.values)}
		s, err := openstack.Desired(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.FernetPeriod(); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
