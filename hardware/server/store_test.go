package server_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// store is an API server in a map, for simulations that take more turns than controller-runtime's
// fake client is quick enough for. It is used by one goroutine. What the code under test does not
// call ends the test by a nil pointer.
type store struct {
	client.Client
	scheme  *runtime.Scheme
	now     func() time.Time
	objects map[string]client.Object
	// identities are the values of server.IdentityIndex, by the keys of objects.
	identities map[string][]string
	version    int
}

func newStore(scheme *runtime.Scheme, now func() time.Time) *store {
	return &store{scheme: scheme, now: now, objects: map[string]client.Object{}, identities: map[string][]string{}}
}

func (s *store) Scheme() *runtime.Scheme { return s.scheme }

func storeKey(o client.Object, k client.ObjectKey) string {
	return reflect.TypeOf(o).String() + "/" + k.String()
}

func notFound(o client.Object, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, name)
}

func (s *store) Get(_ context.Context, k client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	have, ok := s.objects[storeKey(into, k)]
	if !ok {
		return notFound(into, k.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(have.DeepCopyObject()).Elem())
	return nil
}

// List knows Servers, and their index.
func (s *store) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	list := into.(*region.ServerList)
	list.Items = nil
	for key, have := range s.objects {
		srv, ok := have.(*region.Server)
		if !ok || o.FieldSelector != nil && !slices.Contains(s.identities[key], o.FieldSelector.Requirements()[0].Value) {
			continue
		}
		list.Items = append(list.Items, *srv.DeepCopy())
	}
	slices.SortFunc(list.Items, func(a, b region.Server) int { return int(a.CreationTimestamp.Sub(b.CreationTimestamp.Time)) })
	return nil
}

func (s *store) put(o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	key := storeKey(o, client.ObjectKeyFromObject(o))
	s.objects[key] = o.DeepCopyObject().(client.Object)
	if srv, ok := o.(*region.Server); ok {
		s.identities[key] = server.IdentityKeys(srv)
	}
}

func (s *store) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if _, ok := s.objects[storeKey(o, client.ObjectKeyFromObject(o))]; ok {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, o.GetName())
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
	}
	o.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	s.put(o)
	return nil
}

func (s *store) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	have, ok := s.objects[storeKey(o, client.ObjectKeyFromObject(o))]
	if !ok {
		return notFound(o, o.GetName())
	}
	if have.GetResourceVersion() != o.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, o.GetName(), fmt.Errorf("version %s, have %s", o.GetResourceVersion(), have.GetResourceVersion()))
	}
	truncate(o)
	s.put(o)
	return nil
}

// Patch is an Update, since all patches of the code under test are of what was just read.
func (s *store) Patch(ctx context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return s.Update(ctx, o)
}

func (s *store) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	key := storeKey(o, client.ObjectKeyFromObject(o))
	if _, ok := s.objects[key]; !ok {
		return notFound(o, o.GetName())
	}
	delete(s.objects, key)
	return nil
}

func (s *store) Status() client.SubResourceWriter { return storeStatus{nil, s} }

type storeStatus struct {
	client.SubResourceWriter
	s *store
}

func (st storeStatus) Patch(ctx context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return st.s.Update(ctx, o)
}

func (st storeStatus) Update(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return st.s.Update(ctx, o)
}

// truncate brings the times of a Server's status to whole seconds, as JSON does.
func truncate(o client.Object) {
	srv, ok := o.(*region.Server)
	if !ok {
		return
	}
	cut := func(t *metav1.Time) {
		if t != nil {
			t.Time = t.Truncate(time.Second)
		}
	}
	st := &srv.Status
	if n := st.Netboot; n != nil {
		for _, t := range []*metav1.Time{n.Requested, n.ObservedOff, n.Answered, n.Reported, n.Ended, n.LastSeen} {
			cut(t)
		}
	}
	if i := st.Installation; i != nil {
		for _, t := range []*metav1.Time{i.Started, i.Finished, i.Adopted, i.LastReport} {
			cut(t)
		}
	}
	if st.Shutdown != nil {
		cut(&st.Shutdown.Requested)
	}
	if st.Reinstallation != nil {
		cut(&st.Reinstallation.After)
		cut(&st.Reinstallation.Accepted)
	}
	for i := range st.Conditions {
		cut(&st.Conditions[i].LastTransitionTime)
	}
}
