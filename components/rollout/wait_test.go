package rollout_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/components/rollout"
)

func TestPodWaits(t *testing.T) {
	status := func(c ...corev1.ContainerStatus) corev1.PodStatus { return corev1.PodStatus{ContainerStatuses: c} }
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(message string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message}
	}
	for _, tt := range []struct {
		name string
		pod  corev1.PodStatus
		want string
	}{
		{"ready", status(corev1.ContainerStatus{Name: "a", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), ""},
		{"image", status(corev1.ContainerStatus{Name: "api", State: waiting("ImagePullBackOff", "Back-off pulling image x: not found")}), "container api: ImagePullBackOff: Back-off pulling image x: not found"},
		{"crash", status(corev1.ContainerStatus{Name: "api", State: waiting("CrashLoopBackOff", "back-off 5m"),
			LastTerminationState: corev1.ContainerState{Terminated: ended("Traceback\n  no such option: x")}}), "container api: CrashLoopBackOff; before, it exited with status 1: Traceback no such option: x"},
		{"init", corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "sync", State: corev1.ContainerState{Terminated: ended("no table")}}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "api", State: waiting("PodInitializing", "")}}}, "container sync: exited with status 1: no table"},
		{"probe", status(corev1.ContainerStatus{Name: "api", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC))}}}),
			"container api has been running since 10:00:00, but its probe has not succeeded yet"},
		{"no host", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes: Insufficient memory"}}},
			"no host for its pod: 0/1 nodes: Insufficient memory"},
		{"new", corev1.PodStatus{Phase: corev1.PodPending}, "pod p is starting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := rollout.PodWaits(corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: tt.pod}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
