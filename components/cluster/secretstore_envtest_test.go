//go:build envtest

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"regiond.dev/regiond/bootstrap/kube/testassets"
	"regiond.dev/regiond/bootstrap/manager"
	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// The operator's source, with its program (go build -tags fake) as external-secrets in it. Without it the test does what the operator
// does, with a definition of ExternalSecret that takes all fields.
var operatorFlag = flag.String("external-secrets", "", "folder with the External Secrets operator; empty: the test plays it")

// TestRunTakesSecretsFromAStore applies a cluster whose secrets are in a store to a real API server: the configuration of pods has them.
func TestRunTakesSecretsFromAStore(t *testing.T) {
	definitions := "testdata/externalsecrets"
	if *operatorFlag != "" {
		definitions = filepath.Join(*operatorFlag, "config/crds/bases")
	}
	env := &envtest.Environment{BinaryAssetsDirectory: testassets.Dir(t, *regiondFlag), CRDDirectoryPaths: []string{"../../region/crd"},
		ErrorIfCRDPathMissing: true}
	conf, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), region.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(conf, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	reg := &region.Region{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}
	reg.Spec.Networks.Provisioning = region.ProvisioningNetwork{Network: region.Network{CIDR: "10.99.0.0/24", Address: "10.99.0.1"},
		DHCP: region.DHCP{Range: "10.99.0.100-10.99.0.200"}}
	reg.Spec.ControlPlane.DataDir, reg.Spec.Images.Dir = t.TempDir(), w.dir
	reg.Spec.OpenStack.Clusters = []region.OpenStackDeclaration{{Name: "lab", PatchesDir: t.TempDir(), Secrets: region.OpenStackSecrets{
		Source: region.SecretSource{ExternalSecrets: &region.ExternalSecretStore{Store: "vault"}}}}}
	region.Default(reg)
	for _, o := range []client.Object{reg, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "regiond-hosts"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "regiond-system"}}} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	m, err := manager.New(manager.Config{REST: conf, Host: "seed", Cached: []manager.Cached{cluster.Cached()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Setup(m, cluster.Config{Region: reg, DataDir: reg.Spec.ControlPlane.DataDir, Pin: func(context.Context, oci.Set) error { return nil },
		Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	says := func(part string) func() (bool, string) {
		return func() (bool, string) {
			c := &region.OpenStackCluster{}
			if err := client.IgnoreNotFound(api.Get(t.Context(), client.ObjectKey{Name: "lab"}, c)); err != nil {
				t.Fatal(err)
			}
			k := meta.FindStatusCondition(c.Status.Conditions, region.ConditionConfigured)
			if k == nil {
				return false, "no condition"
			}
			return strings.Contains(k.Message, part), k.Message
		}
	}
	eventually(t, "the missing operator is told", says("install the External Secrets operator"))
	if _, err := envtest.InstallCRDs(conf, envtest.CRDInstallOptions{Paths: []string{definitions}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the wait for the operator is told", says("waiting for the External Secrets operator"))
	tree := w.generatedTree()
	if *operatorFlag == "" {
		if err := operatorWrites(t.Context(), api, tree); err != nil {
			t.Fatal(err)
		}
	} else {
		startOperator(t, env, api, tree)
	}
	password, _ := mustGet(t, tree, "rabbitmq.gate_password").(string)
	eventually(t, "RabbitMQ's configuration has the store's password", func() (bool, string) {
		var list corev1.SecretList
		if err := api.List(t.Context(), &list, client.InNamespace("openstack-lab"), client.MatchingLabels{openstack.LabelConfig: "rabbitmq"}); err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			for _, content := range s.Data {
				if strings.Contains(string(content), password) {
					return true, ""
				}
			}
		}
		return false, "no Secret with it"
	})
}

// startOperator runs the External Secrets operator with its fake provider, whose store has the tree.
func startOperator(t *testing.T, env *envtest.Environment, api client.Client, tree any) {
	t.Helper()
	content, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	store := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
		"metadata": map[string]any{"name": "vault"}, "spec": map[string]any{"provider": map[string]any{"fake": map[string]any{"data": []any{
			map[string]any{"key": "openstack-lab/openstack-secrets", "value": string(content)}}}}}}}
	if err := api.Create(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	user, err := env.AddUser(envtest.User{Name: "operator", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	operator := exec.CommandContext(t.Context(), filepath.Join(*operatorFlag, "external-secrets"), "--metrics-addr=127.0.0.1:0", "--live-addr=127.0.0.1:0")
	operator.Env = append(os.Environ(), "KUBECONFIG="+file)
	operator.Stdout, operator.Stderr = os.Stderr, os.Stderr
	if err := operator.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = operator.Process.Kill() // it may have ended
		_ = operator.Wait()         // killed
	})
}
