package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
)

// observe collects the facts of a cluster. Its secrets are generated here, since without them there is nothing to observe.
func (t *reconciliation) observe(ctx context.Context) error {
	t.facts = Facts{Name: t.cluster.Name, Generation: t.cluster.Generation, Release: string(t.cluster.Spec.Release), Status: *t.cluster.Status.DeepCopy(),
		Probes: map[string]Probe{}}
	free, size, err := t.Space(t.DataDir)
	if err != nil {
		return err
	}
	t.facts.Disk = Disk{Path: t.DataDir, Free: free, Size: size}
	if err := t.desire(ctx); err != nil {
		return err
	}
	if err := t.workloads(ctx); err != nil {
		return err
	}
	if t.state != nil { // or else it isn't known which jobs are desired
		if err := t.superseded(ctx); err != nil {
			return err
		}
	}
	if err := t.database(); err != nil {
		return err
	}
	if err := t.reach(ctx); err != nil {
		return err
	}
	for name, p := range t.seen.probes {
		if p.Of == t.fingerprint(name) {
			t.facts.Probes[name] = p
		}
	}
	return t.nodeFacts(ctx)
}

// desire finds out what is desired. What is wrong with it is a fact, not an error of the reconciliation.
func (t *reconciliation) desire(ctx context.Context) error {
	trouble := func(reason string, err error) { t.facts.Trouble = &Trouble{Reason: reason, Message: clip(err.Error())} }
	secret, err := t.readSecret(ctx)
	if err != nil {
		return err
	}
	stop, err := t.pin(ctx, t.Region)
	if err != nil {
		return err
	}
	if stop != nil {
		t.facts.Trouble = stop
		t.input = openstack.Input{Cluster: t.cluster}
		if t.input.Secrets, err = plan.Secrets(ctx, t.reads(), t.cluster.Name); err != nil {
			return err
		}
		t.input.Hosts, err = plan.Hosts(ctx, t.reads(), t.Region, t.cluster) // they are told of all the same
		return err
	}
	t.facts.Release = string(t.cluster.InForce())
	t.facts.Disrupt = plan.MayDisrupt(t.cluster)
	if err := region.Hop(t.cluster.InForce(), t.cluster.Spec.Release); err != nil {
		t.facts.Refused = &Trouble{Reason: region.ReasonReleaseRefused, Message: clip(err.Error())}
	}
	if err := t.ensureSecrets(ctx, secret); err != nil {
		if apierrors.IsConflict(err) || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || ctx.Err() != nil {
			return err // of the API server: tried again
		}
		trouble(region.ReasonSecretsMissing, err)
		return nil
	}
	gathered, err := plan.Gather(ctx, t.reads(), t.Region, t.cluster)
	if err != nil {
		if ctx.Err() != nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			return err
		}
		trouble(region.ReasonNotConfigurable, err)
		t.input = gathered.Input
		t.input.Hosts, err = plan.Hosts(ctx, t.reads(), t.Region, t.cluster) // they are told of all the same
		return err
	}
	t.input = gathered.Input
	t.register()
	if t.state, err = t.compose(); err != nil {
		t.state = nil
		trouble(region.ReasonConfigurationRefused, err)
		return nil
	}
	t.facts.Warnings = slices.Concat(t.facts.Warnings, gathered.Stray, gathered.Waiting, t.state.Warnings)
	return t.fernetFacts(ctx)
}

// register enters which hosts have a nova-compute: they get it restarted once, see node.registration. What Nova said is used as
// long as it is known; otherwise that which is stored for the host holds.
func (t *reconciliation) register() {
	for i := range t.input.Hosts {
		h := &t.input.Hosts[i]
		if seen, ok := t.seen.hosts.by[h.Name]; ok && seen.Service != nil {
			h.Registration = seen.Service.ID
		}
	}
}

// compose renders the state, unless the input is that of the last one.
func (t *reconciliation) compose() (*openstack.State, error) {
	in := t.input
	spec := *in.Cluster
	in.Cluster = &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: spec.Name, UID: spec.UID}, Spec: spec.Spec}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(b, t.composer.Digest()...))
	of := hex.EncodeToString(sum[:])
	if c := &t.seen.composed; c.of != of {
		c.of = of
		if c.state, c.err = t.Compose(t.composer, in, c.last); c.err == nil {
			c.last = c.state
		}
	}
	return t.seen.composed.state, t.seen.composed.err
}

// workloads compares desired workloads with those that are there. While it is not known what is
// desired, those that are there are reported.
func (t *reconciliation) workloads(ctx context.Context) error {
	if t.state == nil {
		return t.present(ctx)
	}
	for _, o := range t.state.Objects {
		w := Workload{Gate: o.GetAnnotations()[openstack.AnnotationGate], Name: o.GetName(), Job: o.GetKind() == "Job"}
		var live client.Object
		switch o.GetKind() {
		case "Deployment":
			live = &appsv1.Deployment{}
		case "StatefulSet":
			live = &appsv1.StatefulSet{}
		case "Job":
			live = &batchv1.Job{}
		default:
			continue
		}
		want, malformed := podSpec(o)
		w.Version = t.version(want)
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(o), live)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			t.facts.Database.Used = t.facts.Database.Used || len(service.Of(w.Gate).Needs) > 0 && !w.Job
			w.Generation = live.GetGeneration()
			if malformed != nil { // one that is not there yet is refused by the API server, which says more
				return malformed
			}
			w.Present = runs(live, want)
			if err := t.progress(ctx, &w, live); err != nil {
				return err
			}
		}
		t.facts.Workloads = append(t.facts.Workloads, w)
	}
	return nil
}

// present lists the workloads that are there.
func (t *reconciliation) present(ctx context.Context) error {
	of := []client.ListOption{client.InNamespace(openstack.Namespace(t.cluster.Name)), client.MatchingLabels{openstack.LabelCluster: t.cluster.Name}}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	if err := errors.Join(t.Client.List(ctx, &deployments, of...), t.Client.List(ctx, &sets, of...)); err != nil {
		return err
	}
	add := func(o client.Object) error {
		w := Workload{Gate: o.GetAnnotations()[openstack.AnnotationGate], Name: o.GetName(), Present: true}
		if err := t.progress(ctx, &w, o); err != nil {
			return err
		}
		t.facts.Workloads = append(t.facts.Workloads, w)
		return nil
	}
	for i := range deployments.Items {
		if err := add(&deployments.Items[i]); err != nil {
			return err
		}
	}
	for i := range sets.Items {
		if err := add(&sets.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// progress says how far a workload is.
func (t *reconciliation) progress(ctx context.Context, w *Workload, live client.Object) error {
	if job, ok := live.(*batchv1.Job); ok {
		w.Failed = failedAt(job)
		t.seen.time(job)
	}
	u, err := asUnstructured(live)
	if err != nil {
		return err
	}
	w.Waiting, err = rollout.Progress(ctx, t.Client, u)
	w.Waiting = strings.TrimPrefix(w.Waiting, w.Name+": ") // who it is of is told beside it
	return err
}

// failedAt is when Kubernetes gave a job up, zero if it did not.
func failedAt(j *batchv1.Job) time.Time {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// version of the Debian package that a workload is to run, by its first container's image.
func (t *reconciliation) version(pod *corev1.PodSpec) string {
	if len(pod.Containers) == 0 {
		return ""
	}
	for _, i := range t.state.Images.Images {
		if i.Digest != "" && strings.HasSuffix(pod.Containers[0].Image, "@"+i.Digest) {
			return i.Version
		}
	}
	return ""
}

// podSpec of a desired workload; an empty one if it is malformed.
func podSpec(o *unstructured.Unstructured) (*corev1.PodSpec, error) {
	m, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec")
	fields, _ := m.(map[string]any)
	spec := &corev1.PodSpec{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec)
	}
	if err != nil {
		return &corev1.PodSpec{}, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return spec, nil
}

// runs says whether a workload that is there runs the desired images and configurations: those are named by their content.
// Other fields are compared when it is applied.
func runs(live client.Object, want *corev1.PodSpec) bool {
	var have *corev1.PodSpec
	switch o := live.(type) {
	case *appsv1.Deployment:
		have = &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		have = &o.Spec.Template.Spec
	default:
		return true // a job is named by all that it does
	}
	return slices.Equal(contents(want), contents(have))
}

// contents of a pod: its images and what it mounts, by name.
func contents(s *corev1.PodSpec) []string {
	var all []string
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		all = append(all, c.Name+"="+c.Image)
	}
	for _, v := range s.Volumes {
		switch {
		case v.Secret != nil:
			all = append(all, v.Name+"=secret/"+v.Secret.SecretName)
		case v.ConfigMap != nil:
			all = append(all, v.Name+"=configmap/"+v.ConfigMap.Name)
		}
	}
	slices.Sort(all)
	return all
}

// reach finds the addresses that probes need.
func (t *reconciliation) reach(ctx context.Context) error {
	switch {
	case t.input.Secrets == nil:
		t.facts.Unreachable = "its secrets are missing; see the condition " + region.ConditionConfigured
		return nil
	case t.cluster.Spec.Address == "":
		t.facts.Unreachable = "it has no address; see the condition " + region.ConditionConfigured
		return nil
	}
	t.target = Target(t.cluster, t.input.Secrets)
	for _, inside := range []struct {
		service.Service
		address *string
	}{{service.MariaDB, &t.target.MariaDB}, {service.Memcached, &t.target.Memcached}} {
		s := &corev1.Service{}
		err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.target.Namespace, Name: inside.Name}, s)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			t.facts.Unreachable = "the Service " + inside.Name + " is not there yet"
			return nil
		}
		*inside.address = inside.Address(s.Spec.ClusterIP)
	}
	t.reachable = true
	if err := t.management(ctx); err != nil {
		return err
	}
	return t.pods(ctx)
}

// management finds the address of the broker's management, which templates of earlier versions have not.
func (t *reconciliation) management(ctx context.Context) error {
	s := &corev1.Service{}
	err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.target.Namespace, Name: service.Management}, s)
	if err == nil && s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
		t.target.Management = net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(service.ManagementPort))
	}
	return client.IgnoreNotFound(err)
}

// pods enters into the facts what the proofs of gates are proofs of: pods, and how often their containers were started.
func (t *reconciliation) pods(ctx context.Context) error {
	var pods corev1.PodList
	if err := t.Client.List(ctx, &pods, client.InNamespace(t.target.Namespace),
		client.MatchingLabels{openstack.LabelCluster: t.cluster.Name}); err != nil {
		return err
	}
	t.incarnations = map[string][]string{}
	for _, p := range pods.Items {
		name := p.Labels[openstack.LabelName]
		starts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			starts += c.RestartCount
		}
		// What failed while a pod was not ready is tried again at once when it is.
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		t.incarnations[name] = append(t.incarnations[name], fmt.Sprintf("%s/%d/%v", p.UID, starts, ready))
	}
	return nil
}

// fingerprint of what a gate's proof is a proof of.
func (t *reconciliation) fingerprint(name string) string {
	h := sha256.New()
	var of []string
	for _, w := range t.facts.Workloads {
		if w.Gate == name && !w.Job {
			pods := slices.Clone(t.incarnations[w.Name])
			slices.Sort(pods)
			of = append(of, w.Name+"="+strings.Join(pods, ","))
		}
	}
	slices.Sort(of)
	fmt.Fprintln(h, of) // to a hash, which does not fail (hash.Hash)
	secrets, err := json.Marshal(lasting(t.input.Secrets))
	if err != nil {
		return err.Error()
	}
	fmt.Fprintln(h, t.cluster.Spec.Address, t.target.MariaDB, t.target.Memcached)
	h.Write(secrets)
	return hex.EncodeToString(h.Sum(nil))
}
