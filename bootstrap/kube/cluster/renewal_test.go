package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
)

func TestOutdated(t *testing.T) {
	all := []user{{component: "etcd"}, {component: "kube-apiserver"}, {component: "kubelet"}}
	started := map[string][]string{"etcd": {"1", "2"}, "kube-apiserver": {"3", "4"}, "kubelet": {"5"}}
	for name, c := range map[string]struct {
		now  map[string][]string
		want []string
	}{
		"nothing renewed": {now: map[string][]string{"etcd": {"1", "2"}, "kube-apiserver": {"3", "4"}, "kubelet": {"5"}}},
		"one of two":      {map[string][]string{"etcd": {"1", "2"}, "kube-apiserver": {"3", "9"}, "kubelet": {"5"}}, []string{"kube-apiserver"}},
		"all, in order":   {map[string][]string{"etcd": {"7", "8"}, "kube-apiserver": {"9", "a"}, "kubelet": {"b"}}, []string{"etcd", "kube-apiserver", "kubelet"}},
	} {
		if got := outdated(all, started, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Every certificate in the configuration has a user, and users are in the order in which they
// start.
func TestUsers(t *testing.T) {
	var c config.Certificates
	fields := reflect.ValueOf(&c).Elem()
	for i := range fields.NumField() {
		fields.Field(i).Set(reflect.ValueOf(pki.Pair{CertFile: fields.Type().Field(i).Name}))
	}
	used := map[string]bool{"Admin": true} // regiond's own, which client-go reloads, and the operator's
	var order []string
	for _, u := range users(c) {
		order = append(order, u.component)
		for _, p := range u.pairs {
			used[p.CertFile] = true
		}
	}
	if len(used) != fields.NumField() {
		t.Errorf("got %v in use, want all %d certificates", used, fields.NumField())
	}
	cluster := testCluster(t)
	cluster.node = config.Node{Name: "seed", Address: cluster.config.Address, PKI: cluster.config.PKI, DataDir: t.TempDir()}
	var want []string
	for _, s := range cluster.components() {
		if s.Name != "containerd" {
			want = append(want, s.Name)
		}
	}
	if !slices.Equal(order, want) {
		t.Errorf("got the order %v, want %v", order, want)
	}
}

// The inventory names the component that has a certificate in its configuration.
func TestInventoryNamesTheUsersOfCertificates(t *testing.T) {
	cluster := testCluster(t)
	issued, err := issue(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{issued.Admin.CertFile: "regiond, operators"}
	for _, u := range users(issued) {
		for _, p := range u.pairs {
			want[p.CertFile] = u.component
		}
	}
	all, err := cluster.config.PKI.Inventory()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		file := filepath.Join(cluster.config.PKI.Dir(), c.Name+".crt")
		if !c.Authority && c.UsedBy != want[file] {
			t.Errorf("%s: got used by %q, want %q", c.Name, c.UsedBy, want[file])
		}
		delete(want, file)
	}
	if len(want) > 0 {
		t.Errorf("got an inventory without %v, want all issued certificates", want)
	}
}

// fakeSupervisor records restarts; that of the broken component fails.
type fakeSupervisor struct {
	restarts chan string
	broken   string
}

func (f *fakeSupervisor) Restart(_ context.Context, component string) error {
	f.restarts <- component
	if component == f.broken {
		return fmt.Errorf("%s is broken", component)
	}
	return nil
}

// take returns the restarts since the last call.
func (f *fakeSupervisor) take() []string {
	var out []string
	for {
		select {
		case c := <-f.restarts:
			out = append(out, c)
		default:
			return out
		}
	}
}

// renewing returns a renewal of real certificates in a real PKI, with the fake clock.
func renewing(t *testing.T, clock *clocktesting.FakeClock) (*renewal, *fakeSupervisor, *Cluster) {
	t.Helper()
	keys, err := pki.Load(filepath.Join(t.TempDir(), "pki"), pki.WithClock(clock.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := testCluster(t)
	c.config.PKI, c.config.Clock, c.config.Log, c.config.DataDir = keys, clock, slog.New(slog.DiscardHandler), t.TempDir()
	c.node = config.Node{Name: "seed", Address: c.config.Address, PKI: keys, DataDir: c.config.DataDir}
	if c.node.Certificates, err = issue(c.config); err != nil {
		t.Fatal(err)
	}
	if err := makeFolders(c.node); err != nil {
		t.Fatal(err)
	}
	r, err := c.newRenewal()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSupervisor{restarts: make(chan string, 100)}
	r.supervisor = f
	return r, f, c
}

var inOrder = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}

func TestRenewalRunsForYears(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakeClock(began)
	r, f, c := renewing(t, clock)
	// The enrollment API's certificate, which is issued later by another user of the PKI.
	if _, err := c.config.PKI.Cluster.Issue("enroll", pki.Request{CN: "regiond-enroll", Usages: pki.Server}); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{})
	r.publish = func() error { looked <- struct{}{}; return nil }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.run(ctx) }()
	wait := func() { // waits until the loop sleeps again
		deadline := time.Now().Add(20 * time.Second)
		for !clock.HasWaiters() {
			if time.Now().After(deadline) {
				t.Fatal("the loop does not wait for its next check")
			}
			runtime.Gosched()
		}
	}
	var days []int
	for day := 1; day <= 2*365; day++ {
		wait()
		clock.Step(24 * time.Hour)
		<-looked
		wait()
		if restarts := f.take(); len(restarts) > 0 {
			days = append(days, day)
			if !slices.Equal(restarts, inOrder) {
				t.Errorf("day %d: restarted %v", day, restarts)
			}
		}
		inventory, err := c.config.PKI.Inventory()
		if err != nil {
			t.Fatal(err)
		}
		if left := inventory[0].NotAfter.Sub(clock.Now()); left < 120*24*time.Hour {
			t.Fatalf("day %d: %s has %s left", day, inventory[0].Name, left)
		}
	}
	if want := []int{244, 488}; !slices.Equal(days, want) {
		t.Errorf("renewed on days %v, want %v", days, want)
	}
	stop()
	<-ended
}

func TestRenewalAfterFailures(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r, f, c := renewing(t, clock)
	clock.Step(250 * 24 * time.Hour)
	// If a component does not come back, those after it keep running with their old certificates.
	f.broken = "kube-apiserver"
	if err := r.check(t.Context()); err == nil {
		t.Error("got no error for a component that did not come back")
	}
	if got := f.take(); !slices.Equal(got, inOrder[:2]) {
		t.Errorf("restarted %v", got)
	}
	// The next check continues from there, even if nothing is due any more.
	f.broken = ""
	if err := r.check(t.Context()); err != nil {
		t.Error(err)
	}
	if got := f.take(); !slices.Equal(got, inOrder[1:]) {
		t.Errorf("restarted %v", got)
	}
	// The operator's kubeconfig contains a copy.
	content, err := os.ReadFile(datadir.AdminKubeconfig.In(c.config.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := os.ReadFile(c.node.Certificates.Admin.CertFile)
	if err != nil || !strings.Contains(string(content), base64.StdEncoding.EncodeToString(certificate)) {
		t.Errorf("%s does not contain the renewed certificate (%v)", datadir.AdminKubeconfig.In(c.config.DataDir), err)
	}
	// If a certificate can't be renewed and a kubeconfig can't be written, the other certificates are
	// used nevertheless.
	clock.Step(250 * 24 * time.Hour)
	renew := r.renew
	r.renew = func() ([]string, error) {
		names, err := renew()
		return names, errors.Join(err, errors.New("one could not"))
	}
	r.publish = func() error { return errors.New("disk full") }
	if err := r.check(t.Context()); err == nil || err.Error() != "one could not\ndisk full" {
		t.Errorf("%v", err)
	}
	if got := f.take(); !slices.Equal(got, inOrder) {
		t.Errorf("restarted %v", got)
	}
}
