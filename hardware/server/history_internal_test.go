package server

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/event/eventtest"
)

// TestHostsTellBounded: a host that writes other conditions all the time does not fill the store.
func TestHostsTellBounded(t *testing.T) {
	book := &eventtest.Book{}
	told := (&Controller{Events: book}).told()
	write := func(kind string, n int) {
		before := &region.Host{ObjectMeta: metav1.ObjectMeta{Name: "h1"}}
		after := before.DeepCopy()
		after.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: fmt.Sprintf("R%d", n)}}
		if !told.Update(ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
			t.Fatal("an update was not let pass")
		}
	}
	for n := range 100 {
		write(fmt.Sprintf("Invented%d", n), n)
	}
	if n := len(book.Lines("")); n != 0 {
		t.Errorf("got %d Events of conditions that agents don't have, want none", n)
	}
	for n := range 10 * toldAtOnce {
		write(region.ConditionHealthy, n)
	}
	if n := len(book.Lines("")); n < toldAtOnce || n > 2*toldAtOnce {
		t.Errorf("got %d Events, want about %d", n, toldAtOnce)
	}
}
