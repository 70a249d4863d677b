package plan

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// LabelTemplates is on the ConfigMaps that hold templates; its value is the version of their
// format.
const LabelTemplates = "regiond.dev/templates-format"

// templatesKey is the key of the archive in such a ConfigMap.
const templatesKey = "templates.zip"

// templatesName returns the name of the ConfigMap for templates with a digest.
func templatesName(digest string) string {
	return "openstack-templates-" + digest[:min(len(digest), 16)]
}

// Templates holds the templates and manifests that clusters are pinned to, by digest. They are
// stored in the API, because the program that they came from may have been replaced. It is safe for
// concurrent use.
type Templates struct {
	// API in which they are stored.
	API client.Client
	// Own are the templates of this program, which a new cluster and the next apply are pinned to.
	Own *openstack.Composer
	// Earlier are templates, besides Own, that clusters without a pin may have been rendered from.
	Earlier []*openstack.Composer

	mu    sync.Mutex
	known map[string]*openstack.Composer
}

// NewTemplates returns Templates with those of this program.
func NewTemplates(api client.Client) (*Templates, error) {
	own, err := openstack.Default()
	if err != nil {
		return nil, err
	}
	unpinned, err := openstack.BeforePins()
	if err != nil {
		return nil, err
	}
	return &Templates{API: api, Own: own, Earlier: []*openstack.Composer{unpinned}}, nil
}

// Get returns the templates with a digest, and ensures that they are stored: the next version of
// the program may not have them.
func (t *Templates) Get(ctx context.Context, digest string) (*openstack.Composer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.known[digest]
	if c == nil {
		var err error
		if c, err = t.find(ctx, digest); err != nil {
			return nil, err
		}
		if t.known == nil {
			t.known = map[string]*openstack.Composer{}
		}
		t.known[digest] = c
	}
	return c, t.store(ctx, c) // they may have been deleted since
}

func (t *Templates) find(ctx context.Context, digest string) (*openstack.Composer, error) {
	for _, c := range slices.Concat([]*openstack.Composer{t.Own}, t.Earlier) {
		if c.Digest() == digest {
			return c, nil
		}
	}
	m := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: region.NamespaceSystem, Name: templatesName(digest)}
	if err := t.API.Get(ctx, key, m); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &TemplatesError{fmt.Errorf("the ConfigMap %s with its templates is missing; restore it from a backup, or pin the "+
				"cluster to the templates of this regiond: regiond plan, then regiond apply", key)}
		}
		return nil, fmt.Errorf("templates %s: %w", digest, err)
	}
	if v, err := strconv.Atoi(m.Labels[LabelTemplates]); err != nil || v > openstack.ArchiveFormat {
		return nil, &TemplatesError{fmt.Errorf("the ConfigMap %s holds templates in the format %q, and this regiond reads formats up to %d; "+
			"run a newer regiond", key, m.Labels[LabelTemplates], openstack.ArchiveFormat)}
	}
	c, err := openstack.Open(m.BinaryData[templatesKey], digest)
	if err != nil {
		return nil, &TemplatesError{fmt.Errorf("the ConfigMap %s: %w", key, err)}
	}
	return c, nil
}

// TemplatesError says what is wrong with stored templates. Retrying does not help.
type TemplatesError struct{ Err error }

func (e *TemplatesError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TemplatesError) Unwrap() error { return e.Err }

// store stores templates in the API. Templates that are already stored, under the digest of their
// content, are left alone.
func (t *Templates) store(ctx context.Context, c *openstack.Composer) error {
	key := client.ObjectKey{Namespace: region.NamespaceSystem, Name: templatesName(c.Digest())}
	var there metav1.PartialObjectMetadata
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := t.API.Get(ctx, key, &there)
	if !apierrors.IsNotFound(err) {
		return err
	}
	archive, err := c.Archive()
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{
		LabelTemplates: strconv.Itoa(openstack.ArchiveFormat), openstack.LabelManagedBy: openstack.ManagedBy}},
		Immutable: ptr.To(true), BinaryData: map[string][]byte{templatesKey: archive}}
	if err := t.API.Create(ctx, m); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("store templates as ConfigMap %s: %w", key, err)
	}
	return nil
}

// pruneAge is the minimum age of templates that are removed: an apply by another process may take a
// while between storing them and pinning a cluster to them.
const pruneAge = time.Hour

// Prune removes templates that no cluster is pinned to.
func (t *Templates) Prune(ctx context.Context, now time.Time) error {
	var stored metav1.PartialObjectMetadataList
	stored.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := t.API.List(ctx, &stored, client.InNamespace(region.NamespaceSystem), client.HasLabels{LabelTemplates}); err != nil {
		return fmt.Errorf("stored templates: %w", err)
	}
	var clusters region.OpenStackClusterList // list them after the templates: a cluster is pinned to templates after they are stored
	if err := t.API.List(ctx, &clusters); err != nil {
		return fmt.Errorf("OpenStack clusters: %w", err)
	}
	used := map[string]bool{templatesName(t.Own.Digest()): true} // a running apply is about to use them
	for _, o := range clusters.Items {
		if p := o.Spec.Pinned; p != nil {
			used[templatesName(p.Templates)] = true
		}
	}
	for i := range stored.Items {
		o := &stored.Items[i]
		if used[o.Name] || now.Sub(o.CreationTimestamp.Time) < pruneAge {
			continue
		}
		if err := t.API.Delete(ctx, o, client.Preconditions{UID: &o.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove templates that no cluster is pinned to: %w", err)
		}
	}
	return nil
}
