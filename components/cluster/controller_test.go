package cluster_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
)

func TestFromNothingToReady(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	s := w.cluster().Status
	var names []string
	for _, v := range s.Services {
		names = append(names, v.Name)
		if !v.Ready || v.Version == "" || v.Message != "" {
			t.Errorf("service %+v", v)
		}
	}
	for _, want := range []string{"mariadb", "rabbitmq", "memcached", "keystone", "placement", "glance", "nova-api", "nova-conductor",
		"nova-scheduler", "neutron-api"} {
		if !slices.Contains(names, want) {
			t.Errorf("no service %s among %v", want, names)
		}
	}
	var kinds []string
	for _, k := range s.Conditions {
		kinds = append(kinds, k.Type)
	}
	if want := slices.Concat(region.Gates, []string{"Configured", "Nodes", "Ready"}); !slices.Equal(kinds, want) {
		t.Errorf("conditions %v, want %v", kinds, want)
	}
	// What probes and the catalogue are given.
	if w.cloud.target.Database.Password == "" || w.cloud.target.Broker.Password == "" || w.cloud.target.Admin.Password == "" ||
		!strings.HasSuffix(w.cloud.target.MariaDB, ":3306") || w.cloud.target.Nova != "http://10.99.0.1:8774/v2.1/" {
		t.Errorf("target %+v", w.cloud.target)
	}
	if e := w.cloud.ensured; e.Region != "RegionOne" || len(e.Services) != 5 || len(e.Users) != 4 || e.Users[0].Password == "" {
		t.Errorf("catalogue %+v", e)
	}
	// Services are served at the cluster's address.
	svc := &corev1.Service{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "keystone"}, svc))
	if i := svc.Status.LoadBalancer.Ingress; len(i) != 1 || i[0].IP != "10.99.0.1" || ptr.Deref(i[0].IPMode, "") != corev1.LoadBalancerIPModeVIP {
		t.Errorf("ingress %+v", i)
	}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "mariadb"}, svc))
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		t.Error("the database is served outside of the cluster")
	}
}

func TestSettledClusterIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.until(always(c), "Keystone's keys are recorded", w.keysRecorded)
	w.reconcile(c)
	if w.pinned != "epoxy" {
		t.Errorf("images of %q are kept on the host", w.pinned)
	}
	w.writes, w.cloud.probed = nil, nil
	begin := w.now
	for range 10 {
		w.reconcile(c)
	}
	if len(w.writes) > 0 {
		t.Errorf("wrote %q", w.writes)
	}
	if took := w.now.Sub(begin); took < 15*time.Minute {
		t.Errorf("10 reconciliations in %s", took)
	}
	if n := len(w.cloud.probed); n == 0 || n > 10*len(region.Gates) {
		t.Errorf("%d probes", n)
	}
}

// regiond is killed again and again: between schema job and rollout, and everywhere else. It lives
// for as many reconciliations as it takes to prove again what was proved before, and one more.
func TestKilledAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	turns := 0
	c := w.controller()
	w.until(func() *cluster.Controller {
		if turns++; turns%4 == 0 {
			c = w.controller()
		}
		return c
	}, "ready", w.ready)
	var jobs batchv1.JobList
	w.must(w.api.List(t.Context(), &jobs))
	if len(jobs.Items) != 5 {
		t.Errorf("%d schema jobs, want each once", len(jobs.Items))
	}
}

func TestBrokerRestarted(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.reconcile(c)
	w.restarts++
	w.kubelet()
	w.cloud.failing[region.ConditionRabbitMQ] = errors.New("rabbitmq 10.99.0.1:5672: connection refused")
	w.cloud.probed = nil
	w.reconcile(c)
	if !slices.Contains(w.cloud.probed, region.ConditionRabbitMQ) {
		t.Errorf("got probes %v, want one of the broker at once: its pod was restarted", w.cloud.probed)
	}
	if k := w.condition(region.ConditionRabbitMQ); k.Status != metav1.ConditionFalse || !strings.Contains(k.Message, "connection refused") {
		t.Errorf("%+v", k)
	}
	delete(w.cloud.failing, region.ConditionRabbitMQ)
	w.until(always(c), "ready again", w.ready)
}

func TestMigrationFails(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.failing = "schema-glance"
	w.until(always(c), "the job's failure is told", func() bool { return w.condition(region.ConditionGlance).Reason == "SchemaJobFailed" })
	if m := w.condition(region.ConditionGlance).Message; !strings.Contains(m, "as the test says") || !strings.Contains(m, "kubectl") {
		t.Errorf("message %q", m)
	}
	err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "openstack-lab", Name: "glance"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("glance was started without its schema: %v", err)
	}
	w.failing = ""
	w.until(always(c), "ready", w.ready)
}

func TestDiskFull(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.free = 1 << 30
	w.reconcile(c)
	w.reconcile(c)
	var sets appsv1.StatefulSetList
	w.must(w.api.List(t.Context(), &sets))
	if k := w.condition(region.ConditionConfigured); k.Reason != "DiskFull" || len(sets.Items) > 0 {
		t.Errorf("%d StatefulSets, %+v", len(sets.Items), k)
	}
	w.free = 10 << 30
	w.until(always(c), "ready", w.ready)
	w.free = 1 << 30
	w.reconcile(c)
	if k := w.condition(region.ConditionReady); k.Status != metav1.ConditionFalse || !strings.Contains(k.Message, "free space") {
		t.Errorf("%+v", k)
	}
	w.free = 10 << 30
	w.until(always(c), "ready again", w.ready)
}

func TestImagesMissing(t *testing.T) {
	w := newWorld(t)
	w.images(false)
	c := w.controller()
	w.reconcile(c)
	if k := w.condition(region.ConditionConfigured); k.Status != metav1.ConditionFalse || !strings.Contains(k.Message, "regiond image build") {
		t.Errorf("%+v", k)
	}
	w.images(true)
	w.until(always(c), "ready", w.ready)
	// What runs does not depend on what is built.
	w.images(false)
	w.reconcile(w.controller())
	w.until(always(c), "ready without the set that was built last", w.ready)
}

func TestWrongDigest(t *testing.T) {
	w := newWorld(t)
	w.refusedImage = "glance@"
	c := w.controller()
	w.until(always(c), "the pull's failure is told", func() bool {
		m := w.condition(region.ConditionGlance).Message
		return strings.Contains(m, "ErrImagePull") && strings.Contains(m, "openstack/epoxy/glance@sha256:")
	})
	w.refusedImage = ""
	w.until(always(c), "ready", w.ready)
}

func TestSecretsLost(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	key := client.ObjectKey{Namespace: "openstack-lab", Name: "openstack-secrets"}
	secret := &corev1.Secret{}
	w.must(w.api.Get(t.Context(), key, secret))
	w.must(w.api.Delete(t.Context(), secret))
	w.reconcile(c)
	if k := w.condition(region.ConditionConfigured); k.Reason != "SecretsMissing" || !strings.Contains(k.Message, "restore") {
		t.Errorf("%+v", k)
	}
	if err := w.api.Get(t.Context(), key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("other secrets were generated for a database that is there: %v", err)
	}
	// One secret of the tree is lost.
	var tree map[string]any
	w.must(json.Unmarshal(secret.Data["secrets.json"], &tree))
	delete(tree, "glance")
	b, err := json.Marshal(tree)
	w.must(err)
	lost := secret.DeepCopy()
	lost.ResourceVersion, lost.Data = "", map[string][]byte{"secrets.json": b}
	w.must(w.api.Create(t.Context(), lost))
	w.reconcile(c)
	if k := w.condition(region.ConditionConfigured); k.Status != metav1.ConditionFalse || !strings.Contains(k.Message, "glance.") {
		t.Errorf("%+v", k)
	}
	w.must(w.api.Delete(t.Context(), lost))
	secret.ResourceVersion = ""
	w.must(w.api.Create(t.Context(), secret))
	w.until(always(c), "ready again", w.ready)
}

func TestAmbiguousCatalogue(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.cloud.failing["catalogue"] = &cloud.AmbiguousError{Kind: "service", Name: "of type compute", IDs: []string{"a", "b"}}
	w.until(always(c), "it is told", func() bool { return strings.Contains(w.condition(region.ConditionKeystone).Message, "a, b") })
	delete(w.cloud.failing, "catalogue")
	w.until(always(c), "ready", w.ready)
}

func TestUnknownValueIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	o := w.cluster()
	o.Spec.Release = "zed"
	w.must(w.api.Update(t.Context(), o))
	w.reconcile(c)
	if k := w.condition(region.ConditionConfigured); k.Status != metav1.ConditionFalse || !strings.Contains(k.Message, "zed") {
		t.Errorf("%+v", k)
	}
	if w.condition(region.ConditionNeutron).Status != metav1.ConditionTrue {
		t.Error("what runs is said not to")
	}
}

// host that has joined.
func (w *world) host(name, address string) {
	w.t.Helper()
	h := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("h-" + name)}, Spec: region.HostSpec{Role: region.RoleCompute}}
	w.must(w.api.Create(w.t.Context(), h))
	h.Status.Addresses = []string{address}
	w.must(w.api.Status().Update(w.t.Context(), h))
}

// agent applies what is stored for a host.
func (w *world) agent(name string) {
	w.t.Helper()
	s, h := &corev1.Secret{}, &region.Host{}
	key := client.ObjectKey{Namespace: "regiond-hosts", Name: name}
	if err := w.api.Get(w.t.Context(), key, s); apierrors.IsNotFound(err) {
		return
	}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, h))
	h.Status.Configuration = &region.HostConfiguration{Digest: s.Annotations[plan.AnnotationDigest]}
	h.Status.Conditions = []metav1.Condition{{Type: region.ConditionConfigured, Status: metav1.ConditionTrue, Reason: "Applied",
		LastTransitionTime: metav1.NewTime(w.now)}}
	w.must(w.api.Status().Update(w.t.Context(), h))
}

func TestNode(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.host("node1", "10.99.0.101")
	key := client.ObjectKey{Namespace: "regiond-hosts", Name: "node1"}
	stored := func() string {
		s := &corev1.Secret{}
		if err := w.api.Get(t.Context(), key, s); err != nil {
			return ""
		}
		return string(s.Data["configuration.json"])
	}
	w.until(always(c), "it is configured", func() bool { return stored() != "" })
	if w.condition(region.ConditionNeutron).Status != metav1.ConditionTrue {
		t.Error("it was configured before all gates were passed")
	}
	if len(w.unrecorded) > 0 {
		t.Errorf("%v were given compute services before that was recorded", w.unrecorded)
	}
	before := stored()
	w.cloud.register("node1", "9f2c1b1e-0000-4000-8000-000000000009")
	w.until(always(c), "it is ready", func() bool {
		w.agent("node1")
		return w.ready()
	})
	if !strings.Contains(stored(), "9f2c1b1e") || strings.Contains(before, "9f2c1b1e") {
		t.Error("its configuration does not change with its registration, so nova-compute is not restarted")
	}
	jobs := 0
	for _, v := range w.writes {
		if strings.HasPrefix(v, "create *v1.Job discover-hosts") {
			jobs++
		}
	}
	if jobs != 1 {
		t.Errorf("hosts were mapped %d times: %v", jobs, w.writes)
	}
	// Nova can't be asked: a registration that is known is kept, or nova-compute would be restarted on all nodes.
	after := stored()
	w.cloud.hosts = nil
	w.cloud.failing[region.ConditionNova] = errors.New("nova: 503")
	c = w.controller()
	for range 5 {
		w.reconcile(c)
	}
	if stored() != after {
		t.Error("the configuration changed while Nova could not be asked")
	}
	delete(w.cloud.failing, region.ConditionNova)
	// A second node, after the first mapping's job has ended.
	w.cloud.register("node1", "9f2c1b1e-0000-4000-8000-000000000009")
	w.cloud.mapAll()
	w.host("node2", "10.99.0.102")
	w.cloud.register("node2", "77777777-0000-4000-8000-000000000009")
	w.until(always(c), "the second node is ready", func() bool {
		w.agent("node2")
		w.agent("node1")
		return w.ready() && w.cluster().Status.NodesTotal == 2
	})
	// Each host says how the cluster sees it.
	h := &region.Host{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node2"}, h))
	if s := h.Status.OpenStack; s == nil || *s != (region.HostOpenStack{Cluster: "lab", Ready: true}) {
		t.Errorf("host node2: %+v", s)
	}
	n := w.cloud.hosts["node2"]
	n.Service.Status, n.Service.DisabledReason = "disabled", "maintenance"
	for range 3 {
		w.now = w.now.Add(time.Minute)
		w.reconcile(c)
	}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node2"}, h))
	if s := h.Status.OpenStack; s == nil || s.Ready || !strings.Contains(s.Message, "maintenance") {
		t.Errorf("host node2 that is disabled: %+v", s)
	}
}

func TestFinalizerFirst(t *testing.T) {
	w := newWorld(t)
	w.reconcile(w.controller())
	if !slices.Contains(w.cluster().Finalizers, cluster.Finalizer) {
		t.Error("no finalizer")
	}
}

// What an earlier process said of a cluster is not believed by who asks before this one has looked.
func TestNothingIsBelievedAtTheStart(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "ready", w.ready)
	w.must(cluster.Unchecked(t.Context(), w.api, w.now))
	s := w.cluster().Status
	for _, k := range s.Conditions {
		if k.Status != metav1.ConditionUnknown || k.Reason != region.ReasonNotChecked || !strings.Contains(k.Message, "not checked yet") ||
			k.LastTransitionTime.Unix() != w.now.Unix() {
			t.Errorf("got %+v, want that it is not checked yet", k)
		}
	}
	for _, v := range s.Services {
		if v.Ready || v.Message == "" {
			t.Errorf("service %+v is called ready", v)
		}
	}
	w.until(always(w.controller()), "ready again", w.ready)
}
