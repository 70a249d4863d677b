package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// counted is the controller with its calls of the API server counted: all of Live, and reads of Client that are not served by its
// caches, which hold neither Secrets nor objects without a type.
func (w *world) counted(calls *int) *cluster.Controller {
	w.t.Helper()
	api, ok := w.api.(client.WithWatch)
	if !ok {
		w.t.Fatal("the fake client can't watch")
	}
	c := w.controller()
	c.Live = interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			*calls++
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			*calls++
			return c.List(ctx, l, opts...)
		},
	})
	c.Templates.API = c.Live
	uncached := func(o any) bool {
		switch o.(type) {
		case *corev1.Secret, *metav1.PartialObjectMetadata, *unstructured.Unstructured:
			return true
		}
		return false
	}
	c.Client = interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if uncached(o) {
				*calls++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	return c
}

// pass lets time pass as controller-runtime would: the next reconciliation comes when the last one
// asked for it, or at once by an event.
func (w *world) pass(c *cluster.Controller, d time.Duration, events bool) (turns int) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); turns++ {
		before := w.reads
		r, err := c.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "lab"}})
		w.must(err)
		if w.reads > before { // a reconciliation that reads nothing comes too early and leaves all as it is
			w.kubelet()
		}
		switch {
		case events:
			r.RequeueAfter = min(r.RequeueAfter, 50*time.Millisecond)
		case r.RequeueAfter < 100*time.Millisecond:
			w.t.Fatalf("the next reconciliation is to begin after %s", r.RequeueAfter)
		}
		w.now = w.now.Add(r.RequeueAfter)
	}
	return turns
}

// Nobody repairs anything for a minute: the API server must not notice.
func TestBrokenClusterIsNotAHotLoop(t *testing.T) {
	tests := map[string]func(w *world){
		"its Secret is missing": func(w *world) { w.must(w.api.Delete(w.t.Context(), w.secret())) },
		"a Service without address": func(w *world) {
			s := &corev1.Service{}
			w.must(w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "mariadb"}, s))
			s.Spec.ClusterIP = corev1.ClusterIPNone
			w.must(w.api.Update(w.t.Context(), s))
		},
		"all gates fail": func(w *world) {
			for _, g := range region.Gates {
				w.cloud.failing[g] = errors.New("connection refused")
			}
		},
	}
	for name, breakIt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			calls := 0
			c := w.counted(&calls)
			w.until(always(c), "ready", w.ready)
			breakIt(w)
			calls = 0
			if turns := w.pass(c, time.Minute, false); turns > 60 || calls > 5*turns {
				t.Errorf("%d reconciliations with %d calls of the API server in a minute", turns, calls)
			}
			// Events of something that flaps do not change that.
			calls = 0
			if w.pass(c, 10*time.Second, true); calls > 200 {
				t.Errorf("%d calls of the API server in 10 s of events", calls)
			}
		})
	}
}

// A cluster in which all is well is looked at without a call for its Secret, its workloads or its hosts.
func TestReadsComeFromCaches(t *testing.T) {
	w := newWorld(t)
	calls := 0
	c := w.counted(&calls)
	w.until(always(c), "ready", w.ready)
	w.reconcile(c)
	at := w.now
	w.reconcile(c)
	w.now = at.Add(time.Second) // what was applied is not compared again yet
	calls = 0
	w.reconcile(c)
	if calls > 1 {
		t.Errorf("a reconciliation in which nothing changed made %d calls of the API server, want that for the cluster itself", calls)
	}
}

func TestDeletedObjectsAreRepairedAtOnce(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.reconcile(c)
	var secrets corev1.SecretList
	var maps corev1.ConfigMapList
	w.must(w.api.List(t.Context(), &secrets, client.InNamespace("openstack-lab")), w.api.List(t.Context(), &maps, client.InNamespace("openstack-lab")))
	deleted := []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "keystone"}}, &maps.Items[0]}
	for i, s := range secrets.Items {
		if strings.HasPrefix(s.Name, openstack.ConfigSecret("nova")+"-") {
			deleted = append(deleted, &secrets.Items[i])
		}
	}
	if len(deleted) != 3 {
		t.Fatalf("%d objects to delete, want a Service, a ConfigMap and a Secret", len(deleted))
	}
	at := w.now
	for _, o := range deleted {
		w.reconcile(c)
		at = at.Add(time.Second)
		w.now = at // what was applied is not compared again yet
		w.must(w.api.Delete(t.Context(), o))
		w.reconcile(c) // the watch's event
		at = at.Add(time.Second)
		w.now = at
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Errorf("it is not back after a reconciliation: %v", err)
		}
	}
}

func TestPause(t *testing.T) {
	part := []cluster.Part{{}}
	tests := map[string]struct {
		d, after cluster.Decision
		want     time.Duration
	}{
		"nothing to do":         {cluster.Decision{}, cluster.Decision{After: time.Minute}, time.Minute},
		"due":                   {cluster.Decision{}, cluster.Decision{}, 250 * time.Millisecond},
		"a part can be applied": {cluster.Decision{}, cluster.Decision{Apply: part, After: time.Minute}, 250 * time.Millisecond},
		"a probe is due":        {cluster.Decision{}, cluster.Decision{Probe: []string{"Nova"}, After: time.Minute}, 250 * time.Millisecond},
		"as before":             {cluster.Decision{Apply: part}, cluster.Decision{Apply: part, After: time.Second}, time.Second},
	}
	for name, tt := range tests {
		if got := cluster.Pause(tt.d, tt.after); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
	var waits []time.Duration
	for failures := range 6 {
		waits = append(waits, cluster.RetryAfter(failures)/time.Second)
	}
	if want := []time.Duration{5, 1, 2, 4, 5, 5}; !slices.Equal(waits, want) {
		t.Errorf("attempts follow after %v s, want %v", waits, want)
	}
}

// What failed while a pod was not ready is tried again when it is, not when a timer says so.
func TestProofIsTriedWhenThePodIsReady(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.reconcile(c)
	w.cloud.failing[region.ConditionRabbitMQ] = errors.New("connection refused")
	w.restarts++
	w.kubelet()
	w.reconcile(c)
	delete(w.cloud.failing, region.ConditionRabbitMQ)
	p := &corev1.Pod{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "rabbitmq-0"}, p))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.must(w.api.Status().Update(t.Context(), p))
	w.now = w.now.Add(-700 * time.Millisecond) // 300 ms after the failed attempt
	w.cloud.probed = nil
	w.reconcile(c)
	if !slices.Contains(w.cloud.probed, region.ConditionRabbitMQ) {
		t.Errorf("the pod is ready, and its gate was not tried: %v", w.cloud.probed)
	}
}
