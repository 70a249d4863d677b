package event

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/region"
)

// book is a Recorder that keeps what it was told.
type book []string

func (b *book) Eventf(_, related runtime.Object, kind, reason, action, note string, args ...any) {
	if related != nil {
		panic("an Event is about one object")
	}
	*b = append(*b, strings.Join([]string{kind, reason, action, fmt.Sprintf(note, args...)}, "|"))
}

func TestConditions(t *testing.T) {
	c := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	before := []metav1.Condition{c("A", "True", "X", ""), c("B", "False", "X", "old"), c("C", "False", region.ReasonNetbooting, "")}
	for name, tt := range map[string]struct {
		after metav1.Condition
		want  string
	}{
		"unchanged":               {c("A", "True", "X", ""), ""},
		"another message":         {c("B", "False", "X", "new"), ""},
		"another status":          {c("A", "False", "X", "m"), "Warning|X|A|A is False: m"},
		"another reason":          {c("B", "False", "Y", "100%s"), "Warning|Y|B|B is False: 100%s"},
		"true":                    {c("B", "True", "Y", "m"), "Normal|Y|B|B is True: m"},
		"unknown":                 {c("A", "Unknown", region.ReasonNotChecked, "m"), "Normal|NotChecked|A|A is Unknown: m"},
		"new":                     {c("D", "False", "X", "m"), "Warning|X|D|D is False: m"},
		"a wait that ends itself": {c("B", "False", region.ReasonNetbooting, "m"), "Normal|Netbooting|B|B is False: m"},
		"a wait of what was true": {c("A", "False", region.ReasonNetbooting, "m"), "Warning|Netbooting|A|A is False: m"},
	} {
		var got book
		changed := Conditions(&got, &region.Server{}, before, []metav1.Condition{tt.after})
		if strings.Join(got, "\n") != tt.want || len(changed) != len(got) {
			t.Errorf("%s: got %q and %d changed, want %q", name, got, len(changed), tt.want)
		}
	}
}

func TestNoteIsBounded(t *testing.T) {
	var got book
	Act(&got, &region.Server{}, "PowerOff", strings.Repeat("ü", 2000), errors.New("no"))
	if note := strings.TrimPrefix(got[0], "Warning|PowerOff|PowerOff|"); len(note) > 1024 || len(note) < 1000 || !strings.HasPrefix(note, "üü") {
		t.Errorf("got a note of %d bytes, want at most 1024: the API server refuses longer ones", len(note))
	}
}
