//go:build envtest

package manager_test

import (
	"context"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/apiserver"
)

var regiondFlag = flag.String("regiond", "../../bin/regiond", "a built regiond, for its API server and etcd")

// local runs on every control host.
type local chan struct{}

func (l local) Start(ctx context.Context) error {
	close(l)
	<-ctx.Done()
	return nil
}

func (local) NeedLeaderElection() bool { return false }

// TestManagersOfTwoHosts runs the managers of two control hosts on one API server.
func TestManagersOfTwoHosts(t *testing.T) {
	s := apiserver.Start(t, *regiondFlag)
	conf, api := s.REST, s.Client
	// A regiond on host a has just been killed.
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: manager.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &now, RenewTime: &now}}
	if err := api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	start := func(host string) (leads, everywhere chan struct{}, ready func() int, stop func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		m, err := manager.New(manager.Config{REST: conf, Host: host, MetricsAddress: address, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		leads, everywhere = make(chan struct{}), make(chan struct{})
		for _, r := range []ctrlmanager.Runnable{local(everywhere), ctrlmanager.RunnableFunc(func(ctx context.Context) error {
			close(leads)
			<-ctx.Done()
			return nil
		})} {
			if err := m.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- m.Start(ctx) }()
		ready = func() int {
			resp, err := http.Get("http://" + address + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		return leads, everywhere, ready, func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("manager of %s: %v", host, err)
			}
		}
	}
	wait := func(c <-chan struct{}, d time.Duration, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(d):
			t.Fatalf("%s: not within %s", what, d)
		}
	}
	leadsB, everywhereB, readyB, stopB := start("b")
	defer stopB()
	leadsA, everywhereA, readyA, stopA := start("a")
	wait(everywhereA, 10*time.Second, "host-local runnable on a")
	wait(everywhereB, 10*time.Second, "host-local runnable on b")
	wait(leadsA, 10*time.Second, "a has its own Lease again before it expires")
	select {
	case <-leadsB:
		t.Error("b leads at the same time as a")
	default:
	}
	if a, b := readyA(), readyB(); a != http.StatusOK || b != http.StatusInternalServerError {
		t.Errorf("/readyz: got %d from a and %d from b, want 200 and 500", a, b)
	}
	stopA()
	wait(leadsB, 10*time.Second, "b has the Lease that a released, before it expires")
}
