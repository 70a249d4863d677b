//go:build envtest

package cluster_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/cluster"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/apiserver"
)

// The operator's source, with its program (go build -tags fake) as external-secrets in it. Without
// it the test does what the operator does, with a definition of ExternalSecret that takes all
// fields.
var operatorFlag = flag.String("external-secrets", "", "folder with the External Secrets operator; empty: the test plays it")

// TestRunTakesSecretsFromAStore applies a cluster whose secrets are in a store to a real API
// server: the configuration of pods has them.
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

// TestRunWithoutTheStore takes away what a cluster's secrets come from, piece by piece: the cluster goes on.
func TestRunWithoutTheStore(t *testing.T) {
	w := newWorld(t)
	a := apply(t, w.dir, region.OpenStackSecrets{Source: region.SecretSource{ExternalSecrets: &region.ExternalSecretStore{Store: "vault"}}}, nil)
	a.Define(t, "testdata/externalsecrets")
	a.says("the wait for the operator is told", region.ConditionConfigured, "waiting for the External Secrets operator")
	if err := operatorWrites(t.Context(), a.Client, w.generatedTree()); err != nil {
		t.Fatal(err)
	}
	broker := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "rabbitmq"}}
	a.there(broker)
	inForce := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: openstack.SecretName}}
	a.there(inForce)

	webhook := a.deadWebhook()
	a.declare(`{"entry": "elsewhere"}`)
	a.says("the webhook is told", region.ConditionConfigured, "entry elsewhere", "failed calling webhook", "its own copy of the secrets stays in use")
	a.repairs(broker)

	a.remove(webhook)
	definition := &unstructured.Unstructured{}
	definition.SetName("externalsecrets.external-secrets.io")
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	a.remove(definition)
	a.declare(`{"entry": "third"}`)
	a.says("the missing definition is told", region.ConditionConfigured, "install the External Secrets operator", "its own copy of the secrets stays in use")
	a.repairs(broker)

	a.Define(t, "testdata/externalsecrets")
	a.declare(`{"entry": null}`)
	asks := externalSecretOf("openstack-lab")
	a.there(asks)
	webhook = a.deadWebhook()
	a.declare(`null`)
	a.says("the webhook is told", region.ConditionConfigured, "can't be removed", "failed calling webhook")
	a.repairs(broker)
	a.remove(webhook)
	a.gone(asks) // a minute later
	a.gone(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: cluster.StoreSecret}})
	before := inForce.DeepCopy()
	if a.there(inForce); !reflect.DeepEqual(inForce.Data, before.Data) {
		t.Error("the secrets in force are not what they were")
	}
}

func externalSecretOf(namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "external-secrets.io", Version: "v1", Kind: "ExternalSecret"})
	o.SetNamespace(namespace)
	o.SetName(cluster.StoreSecret)
	return o
}

// declare changes the store of the cluster by a merge patch.
func (a applied) declare(store string) {
	a.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"secrets":{"source":{"externalSecrets":%s}}}}`, store))
	if err := a.Client.Patch(a.t.Context(), &region.OpenStackCluster{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}, patch); err != nil {
		a.t.Fatal(err)
	}
}

// deadWebhook makes the API server ask a webhook that does not run about ExternalSecrets, as the
// operator's definition of its own does.
func (a applied) deadWebhook() client.Object {
	a.t.Helper()
	rule := admissionv1.RuleWithOperations{Rule: admissionv1.Rule{APIGroups: []string{"external-secrets.io"}, APIVersions: []string{"v1"}, Resources: []string{"externalsecrets"}},
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}}
	o := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "externalsecret-validate"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "validate.externalsecret.external-secrets.io", ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/validate")},
		Rules: []admissionv1.RuleWithOperations{rule}, FailurePolicy: ptr.To(admissionv1.Fail), SideEffects: ptr.To(admissionv1.SideEffectClassNone),
		TimeoutSeconds: ptr.To[int32](1), AdmissionReviewVersions: []string{"v1"}}}}
	if err := a.Client.Create(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
	// The API server notices webhooks a moment later.
	apiserver.Eventually(a.t, "ExternalSecrets are refused", func() (bool, string) {
		probe := externalSecretOf("default")
		err := a.Client.Create(a.t.Context(), probe, client.DryRunAll)
		return apierrors.IsInternalError(err), fmt.Sprint(err)
	})
	return o
}

func (a applied) there(o client.Object) {
	a.t.Helper()
	apiserver.Eventually(a.t, o.GetName()+" is there", func() (bool, string) {
		err := a.Client.Get(a.t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil, fmt.Sprint(err)
	})
}

func (a applied) gone(o client.Object) {
	a.t.Helper()
	apiserver.Eventually(a.t, o.GetName()+" is gone", func() (bool, string) {
		err := a.Client.Get(a.t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

func (a applied) remove(o client.Object) {
	a.t.Helper()
	if err := a.Client.Delete(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
	a.gone(o)
}

// repairs removes an object that the controller makes again.
func (a applied) repairs(o client.Object) {
	a.t.Helper()
	if err := a.Client.Delete(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
	a.there(o)
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
