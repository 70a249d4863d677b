package rollout

import (
	"context"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/region"
)

// AnnotationDisrupt on an OpenStackCluster is the generation whose changes may cut guests off from their networks. The consent is for
// one declaration: the next one has another generation.
const AnnotationDisrupt = "regiond.dev/disrupt-generation"

// Disrupt gives consent that a cluster's present declaration cuts guests off from their networks while hosts change.
func Disrupt(ctx context.Context, c client.Client, cluster string) error {
	o := &region.OpenStackCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: cluster}, o); err != nil {
		return fmt.Errorf("OpenStack cluster %s: %w", cluster, err)
	}
	before := o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[AnnotationDisrupt] = strconv.FormatInt(o.Generation, 10)
	// Fails if the declaration was changed meanwhile.
	if err := c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("OpenStack cluster %s: %w", cluster, err)
	}
	return nil
}

// MayDisrupt says whether there is consent for the present declaration.
func MayDisrupt(cluster *region.OpenStackCluster) bool {
	return cluster.Annotations[AnnotationDisrupt] == strconv.FormatInt(cluster.Generation, 10)
}
