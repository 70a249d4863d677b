//go:build integration

package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"regiond.dev/regiond/test/apiserver"
)

// envtest chooses the flags of etcd and the API server, and the applets must accept them.
func TestEnvtest(t *testing.T) {
	client, err := kubernetes.NewForConfig(apiserver.Start(t, *regiond).REST)
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil || version.Major != "1" {
		t.Errorf("version %v, %v", version, err)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
