package plan

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// AnnotationDisrupt on an OpenStackCluster is the generation whose changes may cut guests off from
// their networks. The consent is for one declaration: the next one has a different generation.
const AnnotationDisrupt = "regiond.dev/disrupt-generation"

// Disrupt records consent that a cluster's current declaration may cut guests off from their
// networks while hosts change. It fails if the declaration changes in the meantime.
func Disrupt(ctx context.Context, c client.Client, cluster string) error {
	o := &region.OpenStackCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: cluster}, o); err != nil {
		return fmt.Errorf("OpenStack cluster %s: %w", cluster, err)
	}
	generation := o.Generation
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // status and annotations change for other reasons
		if err := c.Get(ctx, client.ObjectKey{Name: cluster}, o); err != nil {
			return err
		}
		if o.Generation != generation {
			return fmt.Errorf("its declaration was changed meanwhile, from generation %d to %d; review the new one: regiond plan", generation,
				o.Generation)
		}
		before := o.DeepCopy()
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[AnnotationDisrupt] = strconv.FormatInt(generation, 10)
		return c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("OpenStack cluster %s: consent to cutting off guests: %w", cluster, err)
	}
	return nil
}

// MayDisrupt reports whether there is consent for the current declaration.
func MayDisrupt(cluster *region.OpenStackCluster) bool {
	return cluster.Annotations[AnnotationDisrupt] == strconv.FormatInt(cluster.Generation, 10)
}
