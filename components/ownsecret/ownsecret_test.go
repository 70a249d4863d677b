package ownsecret_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/ownsecret"
	"regiond.dev/regiond/region"
)

func api(trees ...string) client.Client {
	b := fake.NewClientBuilder()
	for _, tree := range trees {
		b.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: openstack.SecretName},
			Data: map[string][]byte{openstack.SecretKey: []byte(tree)}})
	}
	return b.Build()
}

// A secret is added beside the generated ones, replaced, and listed by its name.
func TestSet(t *testing.T) {
	c := api(`{"nova": {"password": "generated"}}`)
	for _, step := range []struct {
		name, value string
		changed     bool
	}{{"ldap-password", "a", true}, {"ldap-password", "a", false}, {"ldap-password", "b", true}, {"vendor-key", "x", true}} {
		changed, err := ownsecret.Set(context.Background(), c, "lab", step.name, step.value)
		if err != nil || changed != step.changed {
			t.Errorf("Set(%s, %s): got %t, %v, want %t", step.name, step.value, changed, err, step.changed)
		}
	}
	secret := &corev1.Secret{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "openstack-lab", Name: openstack.SecretName}, secret); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(secret.Data[openstack.SecretKey], &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"nova": map[string]any{"password": "generated"}, "own": map[string]any{"ldap-password": "b", "vendor-key": "x"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got the tree %v, want %v", got, want)
	}
	names, err := ownsecret.List(context.Background(), c, "lab")
	if err != nil || !slices.Equal(names, []string{"ldap-password", "vendor-key"}) {
		t.Errorf("List: got %v, %v; want the names, sorted", names, err)
	}
}

func TestSetRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		api               client.Client
		name, value, want string
	}{
		"a cluster without secrets": {api(), "a", "S3CRET", "OpenStack cluster lab has no secrets yet"},
		"a damaged tree":            {api(`{"S3CRET"`), "a", "S3CRET", "secrets.json is not a JSON object"},
		"a wrong name":              {api(`{}`), "A b", "S3CRET", `"A b" is not the name of a secret`},
		"a line break":              {api(`{}`), "a", "S3CRET\nx", "has a line break"},
		"something in its way":      {api(`{"own": 1}`), "a", "S3CRET", "own is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ownsecret.Set(context.Background(), tc.api, "lab", tc.name, tc.value)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("got %v, want %q without the secret", err, tc.want)
			}
		})
	}
}

// Secrets that are in the operator's store are added there.
func TestSettable(t *testing.T) {
	c := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
	c.Spec.Name = "lab"
	if err := ownsecret.Settable(c, "ldap-password"); err != nil {
		t.Errorf("generated secrets: got %v, want none", err)
	}
	c.Spec.Secrets.Source.ExternalSecrets = &region.ExternalSecretStore{Store: "vault"}
	const want = "OpenStack cluster lab are in the ClusterSecretStore vault: add own.ldap-password to its entry openstack-lab/openstack-secrets"
	if err := ownsecret.Settable(c, "ldap-password"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("secrets of a store: got %v, want %s", err, want)
	}
}
