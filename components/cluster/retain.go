package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// removeObjects removes what runs for a cluster: the configuration of its hosts, then everything in
// its namespace but the Secret with its passwords and keys. That one stays where it is, encrypted
// at rest as all Secrets are, for as long as the data that only it opens. It says whether all is
// gone.
func (c *Controller) removeObjects(ctx context.Context, cluster *region.OpenStackCluster) (gone bool, err error) {
	name := cluster.Name
	var configurations metav1.PartialObjectMetadataList
	configurations.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.Live.List(ctx, &configurations, client.InNamespace(host.Namespace), client.MatchingLabels{openstack.LabelCluster: name, plan.LabelConfiguration: "true"}); err != nil {
		return false, err
	}
	for i := range configurations.Items {
		if err := plan.RemoveNode(ctx, c.Live, name, &configurations.Items[i]); err != nil {
			return false, err
		}
	}
	ns := &corev1.Namespace{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: openstack.Namespace(name)}, ns); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if !ns.DeletionTimestamp.IsZero() {
		return false, nil // someone deletes it, with the Secret in it
	}
	if err := c.retain(ctx, name, cluster.InForce()); err != nil {
		return false, err
	}
	if _, err := c.forgetStore(ctx, name); err != nil {
		return false, err
	}
	pruned, err := rollout.Prune(ctx, c.Live, plan.Owned(name), nil)
	if err != nil {
		return false, err
	}
	// It is not labelled as regiond's own, and not pruned therefore.
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: jobMapping}}
	err = c.Live.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	ended, err := c.ended(ctx, name)
	return ended && len(pruned) == 0, err
}

// ended says whether no pod of a cluster is left, and nothing that could start one.
func (c *Controller) ended(ctx context.Context, name string) (bool, error) {
	for _, kind := range []string{"Pod", "ReplicaSet"} {
		var left metav1.PartialObjectMetadataList
		gvk := corev1.SchemeGroupVersion.WithKind(kind + "List")
		if kind == "ReplicaSet" {
			gvk = appsv1.SchemeGroupVersion.WithKind(kind + "List")
		}
		left.SetGroupVersionKind(gvk)
		of := []client.ListOption{client.InNamespace(openstack.Namespace(name)), client.MatchingLabels{openstack.LabelCluster: name}}
		if err := c.Live.List(ctx, &left, of...); err != nil || len(left.Items) > 0 {
			return false, err
		}
	}
	return true, nil
}

// retain labels the Secret of a cluster that is removed, and writes down of which release its data
// is, and that there is a database which needs the Secret.
func (c *Controller) retain(ctx context.Context, name string, release region.OpenStackRelease) error {
	secret := &corev1.Secret{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: openstack.Namespace(name), Name: openstack.SecretName}, secret)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if secret.Labels[openstack.LabelRetained] != "" {
		return nil
	}
	before := secret.DeepCopy()
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	now := stamp(c.Now())
	secret.Labels[openstack.LabelRetained], secret.Annotations[openstack.AnnotationRetained] = "true", now
	secret.Annotations[openstack.AnnotationRelease] = string(release)
	there, err := databaseThere(databaseDir(c.DataDir, name))
	if err != nil {
		return err
	}
	if there && secret.Annotations[AnnotationDatabase] == "" {
		secret.Annotations[AnnotationDatabase] = now
	}
	if err := c.Live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("secret %s/%s: retain it: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// reuse takes the label of a retained Secret away: its cluster was declared again.
func (t *reconciliation) reuse(ctx context.Context, secret *corev1.Secret) error {
	since := secret.Annotations[openstack.AnnotationRetained]
	if secret.Labels[openstack.LabelRetained] == "" {
		return nil
	}
	before := secret.DeepCopy()
	delete(secret.Labels, openstack.LabelRetained)
	delete(secret.Annotations, openstack.AnnotationRetained)
	delete(secret.Annotations, openstack.AnnotationRelease)
	if err := t.Live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	t.seen.secret = secret.DeepCopy()
	t.log.Info("secrets of the removed cluster of this name are used again", slog.String("removed", since))
	return nil
}

// AnnotationDatabase on the Secret of a cluster is when its database was first seen to work. From
// then on a database that is not there was lost: none is created in its place.
const AnnotationDatabase = "regiond.dev/database-created"

// databaseDir is where the container of the database has its files.
func databaseDir(dataDir, cluster string) string {
	return filepath.Join(openstack.DataDir(dataDir, cluster), service.FolderDatabase, "data")
}

// createFolder allows the container to create the database.
func createFolder(dataDir, cluster string) string {
	return filepath.Join(openstack.DataDir(dataDir, cluster), service.FolderDatabase, "create")
}

// databaseThere says whether a folder holds a database. One that is empty is the mount point of a disk that is not mounted.
func databaseThere(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return false, nil
	}
	return len(entries) > 0, err
}

// database enters into the facts whether the cluster ever had a database, and whether it is there.
func (t *reconciliation) database() error {
	dir := databaseDir(t.DataDir, t.cluster.Name)
	there, err := databaseThere(dir)
	if err != nil {
		return err
	}
	t.facts.Database.Folder, t.facts.Database.There = dir, there
	return nil
}

// recordDatabase writes down that the cluster has a database now, after it has taken away the leave to create one.
func (t *reconciliation) recordDatabase(ctx context.Context) error {
	if err := os.Remove(createFolder(t.DataDir, t.cluster.Name)); err != nil && !os.IsNotExist(err) {
		return err
	}
	secret := &corev1.Secret{}
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: openstack.Namespace(t.cluster.Name), Name: openstack.SecretName}, secret); err != nil {
		return err
	}
	if secret.Annotations[AnnotationDatabase] == "" {
		before := secret.DeepCopy()
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[AnnotationDatabase] = t.Now().UTC().Format(time.RFC3339)
		if err := t.Live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
		t.log.Info("database created", slog.String("folder", t.facts.Database.Folder))
	}
	t.facts.Database.Created = secret.Annotations[AnnotationDatabase]
	return nil
}
