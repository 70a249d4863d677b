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
	"path/filepath"
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
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/leadership"
)

// These make the test's program a control host of its own, which can be stopped.
var (
	hostFlag       = flag.String("control-host", "", "name of the control host to play instead of running tests")
	kubeconfigFlag = flag.String("kubeconfig-of-test", "", "how the control host reaches the API server")
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

// acts is what control hosts write into all the time while they lead.
var acts = types.NamespacedName{Namespace: region.NamespaceSystem, Name: "acts"}

// act runs the manager of a control host, whose controller writes the host's name many times in each reconciliation.
func act(ctx context.Context, conf *rest.Config, host string) error {
	m, err := manager.New(manager.Config{REST: conf, Host: host, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	write := func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := range 200 {
			// Not a new version of what was read: nothing but the fence keeps a stale one out.
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
	env, conf, api := startAPI(t)
	if err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: acts.Namespace, Name: acts.Name}}); err != nil {
		t.Fatal(err)
	}
	writers := watchWriters(t, api)
	a := startHost(t, env, "a")
	writers.await(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- act(ctx, conf, "b") }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("control host b: %v", err)
		}
	}()
	signalTo(t, a, syscall.SIGSTOP)
	writers.await(t, "b")
	signalTo(t, a, syscall.SIGCONT)
	// It finds that b holds the Lease, and ends: what it knows is of before.
	_ = a.Wait() // with an error, as it has to
	writers.await(t, "b")
	all := writers.seen()
	if i := strings.Index(all, "b"); strings.Contains(all[i:], "a") {
		t.Errorf("writes of a and b in their order: got %q, want none of a after the first of b", all[max(0, i-20):])
	}
}

// startHost starts a control host as a process of its own.
func startHost(t *testing.T, env *envtest.Environment, name string) *exec.Cmd {
	t.Helper()
	user, err := env.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-control-host="+name, "-kubeconfig-of-test="+kubeconfig)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	return cmd
}

func signalTo(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// writers are the names that were written, one letter each, in their order.
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
	go func() { // ends with the watch, and that with the test
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

// await the next write of a host.
func (w *writers) await(t *testing.T, host string) {
	t.Helper()
	_ = w.seen() // those until now
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

// seen are all writes until now.
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
