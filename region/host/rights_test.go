package host_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/region/scheme"
)

// Rights follow the record. Where nothing is on record they stay as they are, but for those of an earlier server.
func TestRightsFollowTheRecord(t *testing.T) {
	a, b := enroll.KeyID([]byte("a")), enroll.KeyID([]byte("b"))
	byName := host.Holders{ByName: true, Unrecorded: true}
	api := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	for _, step := range []struct {
		name    string
		uid     types.UID
		holders host.Holders
		want    []string
	}{
		{"a server of a version that kept no record", "1", byName, []string{"regiond:host:s1"}},
		{"a key is on record", "1", host.Holders{Keys: []string{a}}, []string{enroll.KeyGroup(a)}},
		{"renewed", "1", host.Holders{Keys: []string{b, a}}, []string{enroll.KeyGroup(b), enroll.KeyGroup(a)}},
		{"the record was lost", "1", byName, []string{enroll.KeyGroup(b), enroll.KeyGroup(a)}},
		{"nobody is on record", "1", host.Holders{}, nil},
		{"nobody was on record, and it was lost", "1", byName, nil},
		{"an earlier agent", "1", host.Holders{Keys: []string{a}, ByName: true}, []string{enroll.KeyGroup(a), "regiond:host:s1"}},
		{"another server of the name, that nothing is known of", "2", host.Holders{Unrecorded: true}, nil},
	} {
		s := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: step.uid}}
		if err := host.Ensure(t.Context(), api, s, nil, step.holders); err != nil {
			t.Fatal(err)
		}
		namespaced, everywhere := &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: host.Namespace, Name: host.User("s1")}, namespaced); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKey{Name: host.User("s1")}, everywhere); err != nil {
			t.Fatal(err)
		}
		for _, subjects := range [][]rbacv1.Subject{namespaced.Subjects, everywhere.Subjects} {
			var got []string
			for _, s := range subjects {
				got = append(got, s.Name)
				if want := map[bool]string{true: "User", false: "Group"}[s.Name == "regiond:host:s1"]; s.Kind != want {
					t.Errorf("%s: %s is a %s, want %s", step.name, s.Name, s.Kind, want)
				}
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("%s: the rights are of %v, want %v", step.name, got, step.want)
			}
		}
	}
}
