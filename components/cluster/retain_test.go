package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

// secret of the cluster, nil if there is none.
func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: openstack.SecretName}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return s
}

func (w *world) data() string { return filepath.Join(w.dir, "openstack", "lab", "mariadb", "data") }

// remove takes the cluster out of the region.
func (w *world) remove(c *cluster.Controller) {
	w.t.Helper()
	w.must(w.api.Delete(w.t.Context(), w.cluster()))
	for range 10 {
		w.reconcile(c)
		if apierrors.IsNotFound(w.api.Get(w.t.Context(), client.ObjectKey{Name: "lab"}, &region.OpenStackCluster{})) {
			return
		}
	}
	w.t.Fatal("the cluster is still there")
}

func TestRemovedClusterComesBack(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.host("node1", "10.99.0.101")
	w.until(always(c), "all gates", func() bool { return w.condition(region.ConditionNeutron).Status == metav1.ConditionTrue })
	w.reconcile(c)
	passwords := w.secret().Data[openstack.SecretKey]
	declared := w.cluster()
	others := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "regiond-hosts", Name: "node1.vpn",
		Labels: map[string]string{openstack.LabelCluster: "lab", plan.LabelContributor: "vpn"}}}
	w.must(w.api.Create(t.Context(), others))
	w.remove(c)

	if err := w.api.Delete(t.Context(), others); err != nil {
		t.Errorf("what another contributor gives the host: got %v, want it kept", err)
	}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	w.must(w.api.List(t.Context(), &deployments), w.api.List(t.Context(), &sets), w.api.List(t.Context(), &pods))
	if n := len(deployments.Items) + len(sets.Items) + len(pods.Items); n > 0 {
		t.Errorf("%d workloads and pods are left", n)
	}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "regiond-hosts", Name: "node1"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("its host is still configured: %v", err)
	}
	h := &region.Host{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, h))
	if !slices.Contains(h.ComputeOf(), "lab") {
		t.Errorf("compute services of %q are recorded on the host, on which guests of the removed cluster run", h.ComputeOf())
	}
	s := w.secret()
	if s == nil || string(s.Data[openstack.SecretKey]) != string(passwords) || s.Labels[openstack.LabelRetained] != "true" {
		t.Fatalf("the only copy of its passwords is gone or not marked: %+v", s)
	}
	var secrets corev1.SecretList
	w.must(w.api.List(t.Context(), &secrets, client.InNamespace("openstack-lab")))
	if len(secrets.Items) != 1 {
		t.Errorf("%d Secrets are left, want the retained one", len(secrets.Items))
	}
	if _, err := os.Stat(filepath.Join(w.data(), "ibdata1")); err != nil {
		t.Errorf("its data is gone: %v", err)
	}

	again := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", UID: "c2"}, Spec: declared.Spec}
	w.must(w.api.Create(t.Context(), again))
	w.until(always(c), "all gates again", func() bool { return w.condition(region.ConditionNeutron).Status == metav1.ConditionTrue })
	if s := w.secret(); string(s.Data[openstack.SecretKey]) != string(passwords) || s.Labels[openstack.LabelRetained] != "" {
		t.Errorf("declared again, it has other passwords, or they are still marked as retained: %v", s.Labels)
	}
}

// A cluster that was removed, and whose data was lost meanwhile, does not come back empty.
func TestRetainedSecretWithoutItsData(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	declared := w.cluster()
	// As an earlier regiond made it, which kept no record.
	s := w.secret()
	delete(s.Annotations, cluster.AnnotationDatabase)
	w.must(w.api.Update(t.Context(), s))
	w.remove(c)
	w.must(os.RemoveAll(filepath.Join(w.dir, "openstack")))
	w.must(w.api.Create(t.Context(), &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", UID: "c2"}, Spec: declared.Spec}))
	w.refusesWithoutDatabase(c)
}

// refusesWithoutDatabase expects that no database is created, and that this is told with what to do.
func (w *world) refusesWithoutDatabase(c *cluster.Controller) {
	w.t.Helper()
	for range 3 {
		w.reconcile(c)
	}
	k := w.condition(region.ConditionConfigured)
	for _, part := range []string{w.data(), "restore", "regiond kubectl delete namespace openstack-lab"} {
		if k.Reason != "DatabaseMissing" || !strings.Contains(k.Message, part) {
			w.t.Errorf("got %s: %s, want DatabaseMissing with %q", k.Reason, k.Message, part)
		}
	}
	if _, err := os.Stat(w.data()); !os.IsNotExist(err) {
		w.t.Errorf("an empty database was created: %v", err)
	}
	if w.ready() {
		w.t.Error("a cluster whose data is lost is called ready")
	}
}

func TestLostDataIsNotReplaced(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"its folder":   func(w *world) { w.must(os.RemoveAll(filepath.Join(w.dir, "openstack", "lab"))) },
		"the database": func(w *world) { w.must(os.RemoveAll(w.data())) },
		"no record was kept": func(w *world) {
			s := w.secret()
			delete(s.Annotations, cluster.AnnotationDatabase)
			w.must(w.api.Update(w.t.Context(), s), os.RemoveAll(w.data()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.controller()
			w.until(always(c), "ready", w.ready)
			lose(w)
			w.refusesWithoutDatabase(c)
			// What the remedy says: mount or restore it.
			w.must(os.MkdirAll(w.data(), 0o755), os.WriteFile(filepath.Join(w.data(), "ibdata1"), nil, 0o600))
			w.until(always(c), "ready again", w.ready)
		})
	}
}

// A mount point is there without its disk, and is not a database.
func TestDatabase(t *testing.T) {
	tests := map[string]struct {
		database        cluster.Database
		lost, creatable bool
	}{
		"a new cluster":                     {cluster.Database{}, false, true},
		"created, not proved yet":           {cluster.Database{There: true}, false, false},
		"proved":                            {cluster.Database{There: true, Created: "t"}, false, false},
		"lost":                              {cluster.Database{Created: "t"}, true, false},
		"lost, no record was kept":          {cluster.Database{Used: true}, true, false},
		"in use, no record was kept so far": {cluster.Database{There: true, Used: true}, false, false},
	}
	for name, tt := range tests {
		if lost, creatable := tt.database.Lost(), tt.database.Creatable(); lost != tt.lost || creatable != tt.creatable {
			t.Errorf("%s: got lost %v, creatable %v, want %v, %v", name, lost, creatable, tt.lost, tt.creatable)
		}
	}
	if there, err := cluster.DatabaseThere(t.TempDir()); there || err != nil {
		t.Errorf("an empty folder: got %v, %v, want no database", there, err)
	}
}

// Nothing is written into a database before it is recorded that there is one: what is lost afterwards is known to be lost.
func TestDatabaseIsRecordedFirst(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "the first schema job", func() bool {
		return slices.ContainsFunc(w.jobs(), func(name string) bool { return strings.HasPrefix(name, "schema-") })
	})
	if w.secret().Annotations[cluster.AnnotationDatabase] == "" {
		t.Error("a schema is made in a database that is not recorded")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(w.data()), "create")); !os.IsNotExist(err) {
		t.Errorf("the container may still create a database: %v", err)
	}
}

// TestRemovedClusterKeepsItsRelease: declared again with another release, it is refused as it would
// be while it runs: its databases would be changed without a dump, or can't be read at all.
func TestRemovedClusterKeepsItsRelease(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "all gates", func() bool { return w.condition(region.ConditionNeutron).Status == metav1.ConditionTrue })
	w.reconcile(c)
	declared := w.cluster()
	w.remove(c)
	again := func(release region.OpenStackRelease) {
		o := &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab", UID: "c2"}, Spec: *declared.Spec.DeepCopy()}
		o.Spec.Release, o.Spec.Pinned = release, nil
		w.must(w.api.Create(t.Context(), o))
		for range 5 {
			w.reconcile(c)
		}
	}
	again(region.ReleaseGazpacho)
	if got := w.condition(region.ConditionConfigured); got.Reason != region.ReasonReleaseRefused || !strings.Contains(got.Message, "epoxy") {
		t.Errorf("got %s: %s, want a refusal that names the release of the data", got.Reason, got.Message)
	}
	if w.cluster().Spec.Pinned != nil || w.secret().Labels[openstack.LabelRetained] == "" {
		t.Error("the cluster is pinned, or its kept secret is used")
	}
	w.remove(c)
	again(region.ReleaseEpoxy)
	if w.cluster().Spec.Pinned == nil {
		t.Error("the cluster is not pinned with the release of its data")
	}
	if s := w.secret(); s.Annotations[openstack.AnnotationRelease] != "" || s.Labels[openstack.LabelRetained] != "" {
		t.Errorf("its secret is still kept as that of a removed cluster: %v %v", s.Labels, s.Annotations)
	}
}
