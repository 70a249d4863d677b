package plan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// Plan is what would change in a region: its declaration, and the resulting changes in each
// OpenStack cluster.
type Plan struct {
	Region string `json:"region"`
	// Declarations are the Region and OpenStackCluster objects.
	Declarations []rollout.Change `json:"declarations,omitempty"`
	// Machines are the consequences for servers and disks; filled in by the caller, which knows the
	// hardware.
	Machines []region.Consequence `json:"machines,omitempty"`
	Clusters []*Cluster           `json:"clusters,omitempty"`

	objects   []*unstructured.Unstructured
	gone      []region.OpenStackCluster
	templates *Templates
}

// Empty is true if nothing would change.
func (p *Plan) Empty() bool {
	return len(p.Declarations) == 0 && !slices.ContainsFunc(p.Clusters, func(c *Cluster) bool { return !c.Empty() })
}

// Removed returns the names of the clusters that exist but are no longer declared.
func (p *Plan) Removed() []string {
	var names []string
	for _, c := range p.gone {
		names = append(names, c.Name)
	}
	return names
}

// OfRegion compares a declaration with the region, using this host and its API. It changes nothing.
// The clusters are pinned to the templates of this program and the latest images, as an apply would
// pin them.
func OfRegion(ctx context.Context, c client.Client, r *region.Region, clusters []*region.OpenStackCluster) (*Plan, error) {
	declared, err := r.Desired()
	if err != nil {
		return nil, err
	}
	p := &Plan{Region: r.Name, objects: []*unstructured.Unstructured{declared}}
	if err := p.findRemoved(ctx, c, r.Spec.ControlPlane.DataDir, clusters); err != nil {
		return nil, err
	}
	return p, p.fill(ctx, c, r, clusters)
}

// OfCluster is OfRegion for one cluster only: the region and its other clusters stay unchanged,
// including their pins.
func OfCluster(ctx context.Context, c client.Client, r *region.Region, cluster *region.OpenStackCluster) (*Plan, error) {
	p := &Plan{Region: r.Name}
	return p, p.fill(ctx, c, r, []*region.OpenStackCluster{cluster})
}

// fill compares the plan's objects and those of clusters with the live ones.
func (p *Plan) fill(ctx context.Context, c client.Client, r *region.Region, clusters []*region.OpenStackCluster) error {
	var err error
	if p.templates, err = NewTemplates(c); err != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := p.pin(ctx, c, r, cluster); err != nil {
			return err
		}
		u, err := cluster.Desired()
		if err != nil {
			return fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
		}
		p.objects = append(p.objects, u)
	}
	var changes []rollout.Change
	for _, o := range p.objects {
		change, err := rollout.Compare(ctx, c, o)
		if err != nil {
			return err
		}
		if change.Action == rollout.ActionNone {
			continue
		}
		for i, f := range change.Fields {
			change.Fields[i].Old, change.Fields[i].New = openstack.RedactUnknown(f.Old), openstack.RedactUnknown(f.New)
		}
		switch {
		case change.Object.Kind == "Region":
			for i, f := range change.Fields {
				change.Fields[i].Effects = region.Effects(f.Path)
			}
		case change.Action == rollout.ActionCreate:
			if change.Consequence, err = retainedConsequence(ctx, c, change.Object.Name); err != nil {
				return err
			}
		}
		changes = append(changes, change)
	}
	p.Declarations = append(changes, p.Declarations...) // removals come last
	for _, cluster := range clusters {
		one, err := planCluster(ctx, c, r, cluster)
		if err != nil {
			return err
		}
		p.Clusters = append(p.Clusters, one)
	}
	return nil
}

// retained returns the annotations that a removed cluster of this name has left, nil if there are
// none.
func retained(ctx context.Context, c client.Client, cluster string) (map[string]string, error) {
	s := &metav1.PartialObjectMetadata{}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := c.Get(ctx, client.ObjectKey{Namespace: openstack.Namespace(cluster), Name: openstack.SecretName}, s)
	if apierrors.IsNotFound(err) || err == nil && s.Labels[openstack.LabelRetained] == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secrets of OpenStack cluster %s: %w", cluster, err)
	}
	return s.Annotations, nil
}

// retainedConsequence describes the Secret and data that a removed cluster of this name has left.
func retainedConsequence(ctx context.Context, c client.Client, cluster string) (string, error) {
	left, err := retained(ctx, c, cluster)
	if err != nil || left == nil {
		return "", err
	}
	return fmt.Sprintf("the cluster of this name that was removed at %s is restored with its data, passwords and keys",
		left[openstack.AnnotationRetained]), nil
}

// ReleaseError: the declared release can't use the data of a removed cluster.
type ReleaseError struct{ cause error }

func (e *ReleaseError) Error() string {
	return "the databases of the removed cluster of this name have been kept and would be used: " + e.cause.Error()
}

// Returns returns nil if a cluster that does not exist may be installed with a release, and a
// ReleaseError if a removed cluster has left data that the release can't use. Data that an earlier
// regiond kept has no recorded release and is accepted.
func Returns(ctx context.Context, c client.Client, cluster string, release region.OpenStackRelease) error {
	left, err := retained(ctx, c, cluster)
	if err != nil {
		return err
	}
	if err := region.Hop(region.OpenStackRelease(left[openstack.AnnotationRelease]), release); err != nil {
		return &ReleaseError{err}
	}
	return nil
}

func planCluster(ctx context.Context, c client.Client, r *region.Region, cluster *region.OpenStackCluster) (*Cluster, error) {
	facts, err := Gather(ctx, c, r, cluster)
	if err != nil {
		return nil, err
	}
	state, err := openstack.Desired(facts.Input)
	if err != nil {
		return nil, err
	}
	return OfState(ctx, c, facts, state)
}

// pin pins a cluster as an apply would. A release that the running cluster can't be changed to is
// an error.
func (p *Plan) pin(ctx context.Context, c client.Client, r *region.Region, cluster *region.OpenStackCluster) error {
	live := &region.OpenStackCluster{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	if !live.DeletionTimestamp.IsZero() {
		return fmt.Errorf("OpenStack cluster %s: it is being removed; apply again when it is gone", cluster.Name)
	}
	if live.Name == "" {
		if err := Returns(ctx, c, cluster.Name, cluster.Spec.Release); err != nil {
			return fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
		}
	} else { // clients would not find endpoints in another region
		cluster.Spec.KeystoneRegion = live.EndpointRegion()
	}
	if err := region.Hop(live.InForce(), cluster.Spec.Release); err != nil {
		return fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	set, err := oci.Current(r.Spec.Images.Dir, string(cluster.Spec.Release))
	if err != nil {
		return fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	cluster.Spec.Pinned = openstack.NewPin(p.templates.Own.Digest(), set)
	return nil
}

func (p *Plan) findRemoved(ctx context.Context, c client.Client, dataDir string, clusters []*region.OpenStackCluster) error {
	var list region.OpenStackClusterList
	if err := c.List(ctx, &list); err != nil {
		return fmt.Errorf("OpenStack clusters: %w", err)
	}
	for _, o := range list.Items {
		named := slices.ContainsFunc(clusters, func(w *region.OpenStackCluster) bool { return w.Name == o.Name })
		if named || !o.DeletionTimestamp.IsZero() {
			continue
		}
		p.gone = append(p.gone, o)
		p.Declarations = append(p.Declarations, rollout.Change{Action: rollout.ActionDelete, Object: rollout.Ref{Kind: "OpenStackCluster", Name: o.Name},
			Consequence: fmt.Sprintf("its control plane is removed and its hosts are no longer configured: guests keep running but can't be managed. "+
				"Its data in %s and its passwords and keys, Secret %s/%s, are kept; a cluster declared by this name later gets both back",
				openstack.DataDir(dataDir, o.Name), openstack.Namespace(o.Name), openstack.SecretName)})
	}
	return nil
}

// Allowed returns an error if the plan changes fixed fields, or if it removes clusters and deletion
// is not allowed.
func (p *Plan) Allowed(deletion bool) error {
	for f := range p.regionFields() {
		if f.Old != "" && f.New != "" && slices.Equal(f.Effects, []region.Effect{region.Never}) {
			return fmt.Errorf("%s is fixed for the life of a control plane: it was created with %s, the file has %s; revert the change", f.Path, f.Old, f.New)
		}
	}
	if len(p.gone) == 0 || deletion {
		return nil
	}
	return fmt.Errorf("OpenStack cluster %s is no longer declared and would be removed, which leaves its guests unmanageable; "+
		"declare it again, or confirm the removal: --allow-delete", strings.Join(p.Removed(), ", "))
}

// AtStart returns the paths of the changed fields that take effect when regiond restarts.
func (p *Plan) AtStart() []string {
	var paths []string
	for f := range p.regionFields() {
		if slices.Contains(f.Effects, region.AtStart) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// regionFields returns the changed fields of the Region.
func (p *Plan) regionFields() iter.Seq[rollout.Field] {
	return func(yield func(rollout.Field) bool) {
		for _, c := range p.Declarations {
			for _, f := range c.Fields {
				if c.Object.Kind == "Region" && !yield(f) {
					return
				}
			}
		}
	}
}

// Declare applies the Region and OpenStackCluster objects of a plan and deletes clusters that are
// no longer declared. regiond's controllers do the rest. It returns the objects that were written.
func (p *Plan) Declare(ctx context.Context, c client.Client) ([]rollout.Ref, error) {
	if len(p.Clusters) > 0 {
		// Store templates before a cluster is pinned to them.
		if _, err := p.templates.Get(ctx, p.templates.Own.Digest()); err != nil {
			return nil, err
		}
	}
	written, err := rollout.Apply(ctx, c, p.objects)
	if err != nil {
		return written, err
	}
	var errs []error
	for _, o := range p.gone {
		err := c.Delete(ctx, &o, client.Preconditions{UID: &o.UID})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete OpenStack cluster %s: %w", o.Name, err))
		}
	}
	return written, errors.Join(errs...)
}
