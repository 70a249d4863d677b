package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// pollInterval is how often the API server is queried for the node while it starts.
const pollInterval = 100 * time.Millisecond

// waitNode waits until the node is Ready and pods can be scheduled on it.
func (c *Cluster) waitNode(ctx context.Context) error {
	last := "the node has not registered"
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, c.node.Name, metav1.GetOptions{})
		if err != nil {
			if !apierrors.IsNotFound(err) {
				last = err.Error()
			}
			return false, nil // the API server may be restarting
		}
		last = nodeWaits(node)
		return last == "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for node %s: %s: %w", c.node.Name, last, context.Cause(ctx))
	}
	return nil
}

// nodeWaits says why pods can't run on a node yet, "" if they can.
func nodeWaits(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status != corev1.ConditionTrue {
			return fmt.Sprintf("it is not Ready: %s: %s", condition.Reason, condition.Message)
		}
		if node.Spec.PodCIDR == "" {
			return "its pod range is not recorded yet"
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return "the controller manager has not removed the taint " + taint.Key + " yet"
			}
		}
		return ""
	}
	return "it has not reported its state"
}

// keepNode does the work of a start that needs the API server: the permissions of the API server's
// own client, and this node's properties. It retries until it is done.
func (c *Cluster) keepNode(ctx context.Context) {
	if c.supervisor.WaitReady(ctx, "kube-apiserver") != nil {
		return // the context has ended
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"allow the API server to use kubelets", c.bindKubeletClient},
		{"record the node's pod range", c.describeNode},
	} {
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			err := step.do(ctx)
			if err != nil && !apierrors.IsNotFound(err) {
				c.config.Log.Debug(step.what+"; retrying", slog.Any("error", err))
			}
			return err == nil, nil
		})
		if err != nil {
			return // the context has ended
		}
	}
}

// bindKubeletClient allows the API server's client to use the kubelets' API (logs, exec, proxy),
// and nothing else.
func (c *Cluster) bindKubeletClient(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletClients},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: kubeletClients}},
	}
	_, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// describeNode records the node's role and pod range; the node IPAM controller would do the latter
// more slowly.
func (c *Cluster) describeNode(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		"spec":     map[string]any{"podCIDR": c.node.NodePodCIDR.String(), "podCIDRs": []string{c.node.NodePodCIDR.String()}},
	})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, c.node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
