// Package ownsecret adds an operator's own secrets to those of an OpenStack cluster, e.g. the
// password of an LDAP server. They are in the same Secret and tree as the generated ones, are
// encrypted at rest by Kubernetes, and are backed up or lost together with them.
package ownsecret

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/configgen/secrets"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// MaxSize is the maximum size of a secret in bytes.
const MaxSize = 64 << 10

// Settable is an error for a cluster whose secrets are in a store of the operator's, where Set can't
// add one: it says what to add there.
func Settable(c *region.OpenStackCluster, name string) error {
	from := c.Spec.Secrets.Source.ExternalSecrets
	if from == nil {
		return nil
	}
	return fmt.Errorf("the secrets of OpenStack cluster %s are in the ClusterSecretStore %s: add %s.%s to its entry %s",
		c.Name, from.Store, configgen.OwnSecrets, name, c.Spec.StoreEntry())
}

// Set gives a cluster a secret, or replaces it. changed is false if it has that value already. Errors do not show the value.
func Set(ctx context.Context, c client.Client, cluster, name, value string) (changed bool, err error) {
	if err := configgen.CheckOwnSecret(name, value); err != nil {
		return false, err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, tree, err := read(ctx, c, cluster)
		if err != nil {
			return err
		}
		path := configgen.OwnSecrets + "." + name
		if old, there := secrets.Get(tree, path); there && old == value {
			return nil
		}
		if !secrets.Put(tree, path, value) {
			return fmt.Errorf("secret %s/%s: %s is not an object; restore it from a backup", secret.Namespace, secret.Name, configgen.OwnSecrets)
		}
		content, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		before := secret.DeepCopy()
		secret.Data[openstack.SecretKey] = content
		changed = true
		return c.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return changed && err == nil, err
}

// List returns the names of a cluster's own secrets, sorted.
func List(ctx context.Context, c client.Client, cluster string) ([]string, error) {
	_, tree, err := read(ctx, c, cluster)
	if err != nil {
		return nil, err
	}
	own, _ := tree[configgen.OwnSecrets].(map[string]any) // there may be none
	names := slices.AppendSeq([]string{}, maps.Keys(own))
	slices.Sort(names)
	return names, nil
}

func read(ctx context.Context, c client.Client, cluster string) (*corev1.Secret, map[string]any, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: openstack.Namespace(cluster), Name: openstack.SecretName}
	if err := c.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, fmt.Errorf("OpenStack cluster %s has no secrets yet; regiond creates them when it first applies the cluster: see regiond status, then retry", cluster)
		}
		return nil, nil, fmt.Errorf("secrets of OpenStack cluster %s: %w", cluster, err)
	}
	tree := map[string]any{}
	if err := json.Unmarshal(secret.Data[openstack.SecretKey], &tree); err != nil {
		// Without the error's own text, which may quote a secret.
		return nil, nil, fmt.Errorf("secret %s: %s is not a JSON object; restore it from a backup", key, openstack.SecretKey)
	}
	return secret, tree, nil
}
