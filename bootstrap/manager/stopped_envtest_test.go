//go:build envtest

package manager_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/leadership"
	"regiond.dev/regiond/test/apiserver"
)

// These flags make the test binary play a control host, which can be stopped.
var (
	hostFlag       = flag.String("control-host", "", "name of a control host; the binary plays it and runs no tests")
	kubeconfigFlag = flag.String("kubeconfig-of-test", "", "kubeconfig of the control host")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *hostFlag == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	conf, err := clientcmd.BuildConfigFromFlags("", *kubeconfigFlag)
	if err == nil {
		err = act(ctx, conf, *hostFlag)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// acts is the ConfigMap that control hosts write all the time while they lead.
var acts = types.NamespacedName{Namespace: region.NamespaceSystem, Name: "acts"}

// act runs the manager of a control host, whose controller writes the host's name many times in each
// reconciliation.
func act(ctx context.Context, conf *rest.Config, host string) error {
	m, err := manager.New(manager.Config{REST: conf, Host: host, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	write := func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := range 200 {
			// The patch has no resourceVersion: only the fence prevents stale writes.
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"by":%q,"n":"%d"}}`, host, n))
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: acts.Namespace, Name: acts.Name}}
			if err := m.GetClient().Patch(ctx, o, patch); err != nil {
				return reconcile.Result{}, err
			}
			select {
			case <-ctx.Done():
				return reconcile.Result{}, ctx.Err()
			case <-tick.C:
			}
		}
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Named("acts").Complete(leadership.Reconciler(reconcile.Func(write))); err != nil {
		return err
	}
	return m.Start(ctx)
}

// A control host that is stopped in the middle of a reconciliation, long enough for another one to
// lead, writes nothing more when it continues.
func TestStoppedControlHost(t *testing.T) {
	s := apiserver.Start(t, *regiondFlag)
	api := s.Client
	if err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: acts.Namespace, Name: acts.Name}}); err != nil {
		t.Fatal(err)
	}
	writers := watchWriters(t, api)
	a := startHost(t, s, "a")
	writers.await(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- act(ctx, s.REST, "b") }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("control host b: %v", err)
		}
	}()
	signalTo(t, a, syscall.SIGSTOP)
	writers.await(t, "b")
	signalTo(t, a, syscall.SIGCONT)
	// It finds that b holds the Lease, and exits: its state is outdated.
	_ = a.Wait() // it exits with an error
	writers.await(t, "b")
	all := writers.seen()
	if i := strings.Index(all, "b"); strings.Contains(all[i:], "a") {
		t.Errorf("writes of a and b in order: got %q, want none of a after the first of b", all[max(0, i-20):])
	}
}

// startHost starts a control host as a separate process.
func startHost(t *testing.T, s *apiserver.Server, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-control-host="+name, "-kubeconfig-of-test="+s.Kubeconfig(t, name))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have exited
	return cmd
}

func signalTo(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// writers are the names that were written, one letter each, in order.
type writers struct {
	events chan string
	names  strings.Builder
}

func watchWriters(t *testing.T, api client.WithWatch) *writers {
	t.Helper()
	w, err := api.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(acts.Namespace), client.MatchingFields{"metadata.name": acts.Name})
	if err != nil {
		t.Fatal(err)
	}
	all := &writers{events: make(chan string, 1<<16)}
	go func() { // ends with the watch, which ends with the test
		defer close(all.events)
		for e := range w.ResultChan() {
			if o, ok := e.Object.(*corev1.ConfigMap); ok && o.Data["by"] != "" {
				all.events <- o.Data["by"]
			}
		}
	}()
	t.Cleanup(w.Stop)
	return all
}

// await waits for the next write of a host.
func (w *writers) await(t *testing.T, host string) {
	t.Helper()
	_ = w.seen() // skips earlier writes
	for end := time.After(time.Minute); ; {
		select {
		case by, watched := <-w.events:
			if !watched {
				t.Fatal("the watch has ended")
			}
			if w.names.WriteString(by); by == host {
				return
			}
		case <-end:
			t.Fatalf("%s does not write within a minute", host)
		}
	}
}

// seen returns all writes so far.
func (w *writers) seen() string {
	for {
		select {
		case by, watched := <-w.events:
			if w.names.WriteString(by); watched {
				continue
			}
		default:
		}
		return w.names.String()
	}
}
