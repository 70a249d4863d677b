package plan_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// The controller writes to a cluster all the time, which does not prevent consent; a changed
// declaration does.
func TestConsentIsForTheDeclaration(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*region.OpenStackCluster)
		want   string
	}{
		"something else changes":  {func(o *region.OpenStackCluster) { o.Labels = map[string]string{"a": "b"} }, ""},
		"the declaration changes": {func(o *region.OpenStackCluster) { o.Generation++ }, "from generation 3 to 4"},
	} {
		t.Run(name, func(t *testing.T) {
			meddled := false
			c := fakeAPI(t, &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", Generation: 3}}).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if !meddled {
						meddled = true
						other := &region.OpenStackCluster{}
						err := c.Get(ctx, client.ObjectKeyFromObject(o), other)
						tt.change(other)
						if err := errors.Join(err, c.Update(ctx, other)); err != nil {
							return err
						}
					}
					return c.Patch(ctx, o, p, opts...)
				}}).Build()
			err := plan.Disrupt(t.Context(), c, "lab")
			if tt.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			o := &region.OpenStackCluster{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "lab"}, o); err != nil {
				t.Fatal(err)
			}
			if !meddled || plan.MayDisrupt(o) != (tt.want == "") {
				t.Errorf("got consent %t, want the opposite", plan.MayDisrupt(o))
			}
		})
	}
}
