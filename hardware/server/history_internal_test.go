package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
)

// TestHostsTellBounded: a host that writes other conditions all the time does not fill the store, nor silence the others.
func TestHostsTellBounded(t *testing.T) {
	book := &eventtest.Book{}
	told := (&Controller{Events: book}).told()
	write := func(host, kind string, n int) {
		before := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: host}}
		after := before.DeepCopy()
		after.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: fmt.Sprintf("R%d", n)}}
		if !told.Update(ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
			t.Fatal("an update was not let pass")
		}
	}
	for n := range 100 {
		write("h1", fmt.Sprintf("Invented%d", n), n)
	}
	if n := len(book.Lines("")); n != 0 {
		t.Errorf("got %d Events of conditions that agents don't have, want none", n)
	}
	for n := range 10 * toldByAllAtOnce {
		write("h1", region.ConditionHealthy, n)
	}
	one := len(book.Lines(""))
	if one < toldByOneAtOnce || one > 2*toldByOneAtOnce {
		t.Errorf("one host: got %d Events, want about %d", one, toldByOneAtOnce)
	}
	write("h2", region.ConditionHealthy, 0)
	if n := len(book.Lines("")); n != one+1 {
		t.Errorf("another host: got %d Events, want 1", n-one)
	}
	for n := range 10 * toldByAllAtOnce {
		write(fmt.Sprintf("host%d", n), region.ConditionHealthy, n)
	}
	if n := len(book.Lines("")); n < toldByAllAtOnce || n > 2*toldByAllAtOnce {
		t.Errorf("all hosts: got %d Events, want about %d", n, toldByAllAtOnce)
	}
}

// TestReboot: a host that started again is told once, as a warning, and a first boot is not.
func TestReboot(t *testing.T) {
	book := &eventtest.Book{}
	told := (&Controller{Events: book}).told()
	at := metav1.NewTime(time.Date(2026, 12, 1, 15, 49, 17, 0, time.UTC))
	boots := []region.HostStatus{{}, {BootID: "a"}, {BootID: "a", Kernel: "6.12"}, {BootID: "b", BootTime: &at}, {BootID: "b", BootTime: &at}}
	for i := range boots[1:] {
		before := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "h1"}, Status: boots[i]}
		after := before.DeepCopy()
		after.Status = boots[i+1]
		told.Update(ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	want := "h1: Warning Rebooted: the host started again at 2026-12-01T15:49:17Z; "
	if got := book.Lines(""); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q, want one Event %q", got, want)
	}
}
