// Package host keeps the Kubernetes side of a system: its Host object, the Lease of its heartbeat
// and the rights of its agent, which reach exactly these two objects and the Secret with its
// configuration.
package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
)

// Namespace of the hosts' Leases and configurations.
const Namespace = region.NamespaceHosts

// LeaseDuration is how long a heartbeat lasts.
const LeaseDuration = 40 * time.Second

// User is the name that the agent of a host authenticates as.
func User(name string) string { return enroll.UserPrefix + name }

// Holders are who has the rights of a host. The zero value is nobody.
type Holders struct {
	// Keys of certificates that name them, as of enroll.KeyID.
	Keys []string
	// ByName: whoever is certified by the host's name, as agents of earlier versions are.
	ByName bool
	// Unrecorded: who holds them was not written down, or that was lost. Where rights are given already they stay as they are.
	Unrecorded bool
}

// subjects of the bindings.
func (h Holders) subjects(name string) (all []rbacv1.Subject) {
	for _, k := range h.Keys {
		all = append(all, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: enroll.KeyGroup(k)})
	}
	if h.ByName {
		all = append(all, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: User(name)})
	}
	return all
}

// Ensure makes what an installed server's agent needs: its Host, Lease and rights. All of it
// belongs to the Server and goes with it. A Host of an earlier Server of the same name is replaced.
// The profile is the one that the server was installed by, nil when that can't be told any more.
func Ensure(ctx context.Context, c client.Client, server *region.Server, profile *region.Profile, holders Holders) error {
	if err := ensureHost(ctx, c, server, profile); err != nil {
		return fmt.Errorf("host %s: %w", server.Name, err)
	}
	return ensureRights(ctx, c, server, server.Name, holders)
}

func ensureRights(ctx context.Context, c client.Client, owner client.Object, name string, holders Holders) error {
	for _, o := range rights(name, holders) {
		if err := ensure(ctx, c, owner, o, holders.Unrecorded); err != nil {
			return fmt.Errorf("host %s: %T: %w", name, o, err)
		}
	}
	return nil
}

// Remove takes the rights of a host first, then the objects, its configuration among them.
func Remove(ctx context.Context, c client.Client, name string) error {
	objects := rights(name, Holders{})
	slices.SortStableFunc(objects, func(a, b client.Object) int { return removalRank(a) - removalRank(b) })
	objects = append(objects,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}},
		&region.Host{ObjectMeta: metav1.ObjectMeta{Name: name}})
	for _, o := range objects {
		if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("host %s: delete %T: %w", name, o, err)
		}
	}
	return nil
}

func removalRank(o client.Object) int {
	switch o.(type) {
	case *rbacv1.ClusterRoleBinding, *rbacv1.RoleBinding:
		return 0
	case *rbacv1.ClusterRole, *rbacv1.Role:
		return 1
	}
	return 2
}

func ensureHost(ctx context.Context, c client.Client, server *region.Server, profile *region.Profile) error {
	desired := region.HostSpec{ServerUID: string(server.UID), Role: region.RoleCompute}
	if profile != nil {
		desired.Profile = profile.Name
		if profile.Role != "" {
			desired.Role = profile.Role
		}
	}
	h := &region.Host{}
	err := c.Get(ctx, client.ObjectKey{Name: server.Name}, h)
	if err == nil && h.Spec.ServerUID != desired.ServerUID {
		// Identity is the UID: what an earlier server of this name reported must not speak for this one.
		if err := c.Delete(ctx, h, client.Preconditions{UID: &h.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
		err = apierrors.NewNotFound(region.GroupVersion.WithResource("hosts").GroupResource(), server.Name)
	}
	switch {
	case apierrors.IsNotFound(err):
		h = &region.Host{ObjectMeta: metav1.ObjectMeta{Name: server.Name}, Spec: desired}
		if err := controllerutil.SetControllerReference(server, h, c.Scheme()); err != nil {
			return err
		}
		return c.Create(ctx, h)
	case err != nil:
		return err
	}
	if profile == nil {
		desired.Role, desired.Profile = h.Spec.Role, h.Spec.Profile
	}
	if h.Spec == desired {
		return nil
	}
	before := h.DeepCopy()
	h.Spec = desired
	return c.Patch(ctx, h, client.MergeFrom(before))
}

// rights are the Lease and the roles and bindings of one host's agent. The API server can't limit
// 'create' to a name, so regiond creates the objects and the agent may only update them. It does
// limit 'list' and 'watch' to one, for requests with the field selector metadata.name.
func rights(name string, holders Holders) []client.Object {
	user, group := User(name), region.GroupVersion.Group
	only := []string{name}
	subjects := holders.subjects(name)
	return []client.Object{
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{"hosts"}, ResourceNames: only, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{group}, Resources: []string{"hosts/status"}, ResourceNames: only, Verbs: []string{"get", "patch", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: Namespace}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: only, Verbs: []string{"get", "patch", "update"}},
			{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: only, Verbs: []string{"get", "list", "watch"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: Namespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}},
	}
}

// ensure creates an object, or brings its rules, subjects and owner back to what is desired. keep leaves the subjects of what is
// the owner's already.
func ensure(ctx context.Context, c client.Client, owner, desired client.Object, keep bool) error {
	have := desired.DeepCopyObject().(client.Object)
	_, err := controllerutil.CreateOrPatch(ctx, c, have, func() error {
		keep := keep && metav1.IsControlledBy(have, owner)
		switch h := have.(type) {
		case *rbacv1.ClusterRole:
			setIfOther(&h.Rules, desired.(*rbacv1.ClusterRole).Rules)
		case *rbacv1.Role:
			setIfOther(&h.Rules, desired.(*rbacv1.Role).Rules)
		case *rbacv1.ClusterRoleBinding:
			if !keep {
				setIfOther(&h.Subjects, desired.(*rbacv1.ClusterRoleBinding).Subjects)
			}
		case *rbacv1.RoleBinding:
			if !keep {
				setIfOther(&h.Subjects, desired.(*rbacv1.RoleBinding).Subjects)
			}
		}
		// An object that was left by an earlier server of the same name is taken over.
		have.SetOwnerReferences(nil)
		return controllerutil.SetControllerReference(owner, have, c.Scheme())
	})
	return err
}

func setIfOther[T any](have *T, desired T) {
	if !equality.Semantic.DeepEqual(*have, desired) {
		*have = desired
	}
}
