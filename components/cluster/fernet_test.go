package cluster_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

const week = 7 * 24 * time.Hour

// TestFernetSteps: keys rotate when they are due and Keystone is known to have the present ones,
// and not otherwise.
func TestFernetSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *cluster.Facts)
		step   cluster.FernetStep
		// message of the status, as far as it matters, and whether it says when the next rotation
		// is.
		message string
		next    bool
	}{
		"not due":                            {func(f *cluster.Facts) { f.Fernet.Since = now.Add(time.Second - week) }, cluster.FernetKeep, "", true},
		"due":                                {func(f *cluster.Facts) { f.Fernet.Since = now.Add(-week) }, cluster.FernetRotate, "", true},
		"due for a month":                    {func(f *cluster.Facts) { f.Fernet.Since = now.Add(-5 * week) }, cluster.FernetRotate, "", true},
		"not recorded":                       {func(f *cluster.Facts) { f.Fernet.Since = time.Time{} }, cluster.FernetRecord, "", false},
		"recorded by a clock that was ahead": {func(f *cluster.Facts) { f.Fernet.Since = now.Add(1000 * week) }, cluster.FernetRecord, "", false},
		"not recorded, pods have other keys": {func(f *cluster.Facts) { f.Fernet.Since, f.Fernet.Present = time.Time{}, time.Time{} }, cluster.FernetKeep,
			"waiting until regiond has seen Keystone with the present keys for 10m0s", false},
		"not recorded, pods have the keys for a minute": {func(f *cluster.Facts) { f.Fernet.Since, f.Fernet.Present = time.Time{}, now.Add(-time.Minute) },
			cluster.FernetKeep, "waiting until regiond has seen", false},
		"due, pods have other keys":     {func(f *cluster.Facts) { f.Fernet.Present = time.Time{} }, cluster.FernetKeep, "waiting until regiond has seen", true},
		"due, the process just started": {func(f *cluster.Facts) { f.Fernet.Present = now }, cluster.FernetKeep, "waiting until regiond has seen", true},
		"due, Keystone is not proved":   {func(f *cluster.Facts) { delete(f.Probes, region.ConditionKeystone) }, cluster.FernetKeep, "waiting for the gate Keystone", true},
		"due, Keystone rolls out":       {func(f *cluster.Facts) { workload(f, "keystone").Waiting = "0 of 1 pods ready" }, cluster.FernetKeep, "waiting for the gate Keystone", true},
		"due, the disk is full":         {func(f *cluster.Facts) { f.Disk.Free = 1 }, cluster.FernetKeep, "waiting for the cluster to be applied", true},
		"earlier templates":             {func(f *cluster.Facts) { f.Fernet.Rotates = false }, cluster.FernetKeep, "regiond apply brings others", false},
		"of a store":                    {func(f *cluster.Facts) { f.Fernet.Store = "vault" }, cluster.FernetKeep, "they are those of the ClusterSecretStore vault", false},
	} {
		f := settled()
		f.Fernet = &cluster.Fernet{Rotates: true, Since: now.Add(-week), Period: week, Present: now.Add(-time.Hour)}
		tc.change(&f)
		before := *f.Fernet
		d := cluster.Decide(f, now)
		if d.Fernet != tc.step {
			t.Errorf("%s: got step %d, want %d", name, d.Fernet, tc.step)
		}
		k := d.FernetKeys
		if k == nil || !strings.Contains(k.Message, tc.message) || tc.message == "" && k.Message != "" || (k.Next != nil) != tc.next {
			t.Errorf("%s: got status %+v, want the message %q, and when the next rotation is: %v", name, k, tc.message, tc.next)
		}
		if *f.Fernet != before {
			t.Errorf("%s: the facts are changed", name)
		}
	}
	f := settled()
	f.Status.FernetKeys = &region.OpenStackFernetKeys{Message: "as it was"}
	if d := cluster.Decide(f, now); d.Fernet != cluster.FernetKeep || d.FernetKeys != f.Status.FernetKeys {
		t.Errorf("nothing is known: got step %d and %+v, want none and the status as it was", d.Fernet, d.FernetKeys)
	}
}

// keystone plays Keystone's pods, which get a changed Secret two minutes later, from a kubelet that
// ends with regiond.
type keystone struct {
	w *world
	// keys by the name of their file, and tokens by what signed them.
	keys   map[string]string
	tokens map[string]time.Time
	// next keys, and since when the kubelet knows of them.
	next  map[string]string
	known time.Time
	// rotations that the pods have seen.
	rotations int
}

// secret is what the API server has for the pods.
func (k *keystone) secret() map[string]string {
	k.w.t.Helper()
	s := &corev1.Secret{}
	k.w.must(k.w.api.Get(k.w.t.Context(), client.ObjectKey{Namespace: openstack.Namespace("lab"), Name: openstack.ConfigSecret(openstack.RoleFernet)}, s))
	files := map[string]string{}
	for key, content := range s.Data {
		files[strings.TrimPrefix(key, "etc.keystone.fernet-keys.")] = string(content)
	}
	return files
}

// kubelet brings the Secret into the pods; started is when it was.
func (k *keystone) kubelet(started time.Time) {
	if now := k.secret(); !maps.Equal(now, k.next) {
		k.next, k.known = now, k.w.now
	}
	since := k.known
	if since.Before(started) {
		since = started
	}
	if k.w.now.Sub(since).Abs() >= 2*time.Minute && !maps.Equal(k.keys, k.next) {
		k.keys = k.next
		k.rotations++
	}
}

// issue a token: what counts of it is when its key signed last.
func (k *keystone) issue() { k.tokens[k.keys["2"]] = k.w.now }

// lost tells of tokens that are valid and whose key is gone. A service shows a token for up to 48
// hours beyond its hour.
func (k *keystone) lost() (all []time.Duration) {
	for key, issued := range k.tokens {
		if age := k.w.now.Sub(issued); age < 49*time.Hour && !slices.Contains(slices.Collect(maps.Values(k.keys)), key) {
			all = append(all, age)
		}
	}
	return all
}

// pass is a reconciliation, after which pods get what they are to have, and a token is issued.
func (k *keystone) pass(c *cluster.Controller, started time.Time) {
	k.w.t.Helper()
	staged, before := k.keys["0"], k.rotations
	k.w.reconcile(c)
	k.kubelet(started)
	k.issue()
	if k.rotations > before && k.keys["2"] != staged {
		k.w.t.Fatalf("after rotation %d, Keystone signs with a key that its pods did not have before", k.rotations)
	}
	if lost := k.lost(); len(lost) > 0 {
		k.w.t.Fatalf("after %d rotations, tokens of these ages can't be read any more: %v", k.rotations, lost)
	}
}

// TestTokensOutliveRotations: wherever in a rotation regiond is killed, and is away for longer than
// a period, and when the clock is set back, no token is lost before it has expired, pods have the
// staged key before it signs, and none of them is restarted.
func TestTokensOutliveRotations(t *testing.T) {
	w := newWorld(t)
	c, started := w.controller(), w.now
	w.until(always(c), "ready", w.ready)
	pods := w.keystonePod()
	k := &keystone{w: w, tokens: map[string]time.Time{}}
	k.keys = k.secret()
	const clock = -1                                    // the clock is set back instead
	for _, turns := range []int{0, 1, 2, clock, 3, 4} { // until it is killed
		for range 60 {
			k.pass(c, started)
			if w.keysRecorded() {
				break
			}
		}
		next := w.cluster().Status.FernetKeys.Next
		if next == nil {
			t.Fatalf("the keys are not recorded: %+v", w.cluster().Status.FernetKeys)
		}
		w.now = next.Time.Add(time.Second)
		if turns == clock {
			w.now = w.now.Add(-8 * 24 * time.Hour) // before the last rotation
			k.tokens = map[string]time.Time{}
			continue
		}
		for range turns {
			begin := w.now
			k.pass(c, started)
			w.now = begin.Add(time.Second) // what was written wakes the cluster
		}
		w.now = w.now.Add(8 * 24 * time.Hour) // Keystone goes on meanwhile
		k.issue()
		c, started = w.controller(), w.now
	}
	if k.rotations < 4 {
		t.Errorf("got %d rotations, want at least 4 in this time", k.rotations)
	}
	if after := w.keystonePod(); !equality.Semantic.DeepEqual(after, pods) {
		t.Errorf("Keystone's pods are started again:\ngot  %+v\nwant %+v", after, pods)
	}
	if got := len(w.events.Lines("lab: Normal FernetKeysRotated: ")); got < k.rotations {
		t.Errorf("got %d Events of rotations, want one for each of %d", got, k.rotations)
	}
}

// keystonePod is what Keystone's pods are started with.
func (w *world) keystonePod() corev1.PodSpec {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Namespace: openstack.Namespace("lab"), Name: "keystone"}, d))
	return d.Spec.Template.Spec
}

// keysRecorded says whether it is known when the keys rotate next.
func (w *world) keysRecorded() bool {
	k := w.cluster().Status.FernetKeys
	return k != nil && k.Next != nil && k.Next.Time.After(w.now)
}

// TestMissedRotations: after a month away, the keys rotate once, and then each week; proofs outlive
// that.
func TestMissedRotations(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.until(always(c), "the keys are recorded", func() bool { return w.ready() && w.keysRecorded() })
	w.now = w.now.Add(31 * 24 * time.Hour)
	c = w.controller()
	rotations := func() int { return len(w.events.Lines("lab: Normal FernetKeysRotated: ")) }
	w.until(always(c), "the keys are rotated", func() bool { return rotations() == 1 })
	w.reconcile(c)
	w.until(always(c), "the keys are recorded", w.keysRecorded)
	proofs := len(w.cloud.probed)
	for w.now.Before(w.cluster().Status.FernetKeys.Next.Time.Add(-24 * time.Hour)) {
		w.reconcile(c)
		w.now = w.now.Add(24 * time.Hour)
		if got := rotations(); got != 1 {
			t.Fatalf("got %d rotations within a week after one that was missed, want 1", got)
		}
	}
	if !w.ready() || len(w.cloud.probed) == proofs {
		t.Errorf("the cluster is not ready, or was not looked at: %s", w.condition(region.ConditionReady).Message)
	}
	lines := len(w.events.Lines("lab: "))
	w.until(always(c), "the keys are rotated again", func() bool { w.now = w.now.Add(8 * time.Hour); return rotations() == 2 })
	w.reconcile(c)
	if !w.ready() || len(w.events.Lines("lab: ")) != lines+1 {
		t.Errorf("a rotation made the cluster not ready, or told more than itself:\n%s", strings.Join(w.events.Lines("lab: ")[lines:], "\n"))
	}
}

// TestKeysThatAreNotOursStay: keys of a store, and of a cluster that an earlier regiond rolled out,
// are not rotated, and status says why.
func TestKeysThatAreNotOursStay(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(w *world)
		want    string
	}{
		"earlier templates": {func(w *world) {
			var err error
			w.composer, err = openstack.BeforePins()
			w.must(err)
		}, "the templates that the cluster is pinned to start Keystone with them"},
		"store": {func(w *world) {
			storeOf(w)
			w.reconcile(w.controller()) // makes the namespace
			w.must(operatorWrites(w.t.Context(), w.api, w.generatedTree()))
		}, "ClusterSecretStore vault"},
	} {
		w := newWorld(t)
		w.t = t
		tc.prepare(w)
		c := w.controller()
		w.until(always(c), name+": ready", w.ready)
		before := w.inForce()
		for range 2 {
			w.now = w.now.Add(10 * 24 * time.Hour)
			w.reconcile(c)
		}
		if !equality.Semantic.DeepEqual(w.inForce(), before) {
			t.Errorf("%s: the secrets were changed", name)
		}
		if k := w.cluster().Status.FernetKeys; k == nil || !strings.Contains(k.Message, tc.want) || k.Next != nil {
			t.Errorf("%s: got status %+v, want one that says %q", name, k, tc.want)
		}
	}
}
