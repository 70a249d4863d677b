package kubeadm

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeWaits(t *testing.T) {
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	tainted := corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady}}}
	controlPlane := corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane"}}}
	named := metav1.ObjectMeta{Name: "seed"}
	for _, c := range []struct {
		nodes []corev1.Node
		want  string
	}{
		{nil, "no node has registered"},
		{[]corev1.Node{{ObjectMeta: named}}, "node seed is not Ready"},
		{[]corev1.Node{{ObjectMeta: named, Status: ready, Spec: tainted}}, "node seed has the taint node.kubernetes.io/not-ready"},
		{[]corev1.Node{{ObjectMeta: named, Status: ready, Spec: controlPlane}}, ""},
	} {
		got := ""
		if err := nodeWaits(c.nodes); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.nodes, got, c.want)
		}
	}
}

// Waiting goes on when what brings the control plane up has ended well, and ends with it when it failed.
func TestUntil(t *testing.T) {
	ended := make(chan error, 1)
	ended <- nil
	close(ended)
	asked := 0
	started := time.Now()
	at, err := until(t.Context(), func(context.Context) error {
		if asked++; asked < 3 {
			return errors.New("not yet")
		}
		return nil
	}, ended)
	if err != nil || at.Sub(started) < readyPoll || asked != 3 {
		t.Errorf("got %s after %d questions and %v, want 3 questions", at.Sub(started), asked, err)
	}
	failed := make(chan error, 1)
	failed <- errors.New("exit status 1")
	_, err = until(t.Context(), func(context.Context) error { return errors.New("not yet") }, failed)
	if want := "exit status 1, while: not yet"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBetter(t *testing.T) {
	var best Pair
	for _, p := range []Pair{{6, 20}, {5, 22}, {7, 21}} {
		best.better(p)
	}
	if want := (Pair{5, 20}); best != want || best.Share() != 0.25 {
		t.Errorf("got %+v, a share of %.2f, want %+v, 0.25", best, best.Share(), want)
	}
}
