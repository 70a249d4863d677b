//go:build envtest

package cluster_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/apiserver"
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
	w := newWorld(t)
	a := apply(t, w.dir, region.OpenStackSecrets{Source: region.SecretSource{ExternalSecrets: &region.ExternalSecretStore{Store: "vault"}}}, nil)
	a.says("the missing operator is told", region.ConditionConfigured, "install the External Secrets operator")
	a.Define(t, definitions)
	a.says("the wait for the operator is told", region.ConditionConfigured, "waiting for the External Secrets operator")
	tree := w.generatedTree()
	if *operatorFlag == "" {
		if err := operatorWrites(t.Context(), a.Client, tree); err != nil {
			t.Fatal(err)
		}
	} else {
		startOperator(t, a.Server, tree)
	}
	password, _ := mustGet(t, tree, "rabbitmq.gate_password").(string)
	apiserver.Eventually(t, "RabbitMQ's configuration has the store's password", func() (bool, string) {
		var list corev1.SecretList
		if err := a.Client.List(t.Context(), &list, client.InNamespace("openstack-lab"), client.MatchingLabels{openstack.LabelConfig: "rabbitmq"}); err != nil {
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
func startOperator(t *testing.T, s *apiserver.Server, tree any) {
	t.Helper()
	content, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	store := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
		"metadata": map[string]any{"name": "vault"}, "spec": map[string]any{"provider": map[string]any{"fake": map[string]any{"data": []any{
			map[string]any{"key": "openstack-lab/openstack-secrets", "value": string(content)}}}}}}}
	if err := s.Client.Create(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	operator := exec.Command(filepath.Join(*operatorFlag, "external-secrets"), "--metrics-addr=127.0.0.1:0", "--live-addr=127.0.0.1:0")
	operator.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(t, "operator"))
	apiserver.Run(t, operator)
}
