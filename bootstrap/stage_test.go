package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/journal"
	"regiond.dev/regiond/region"
)

func testRun(t *testing.T, told *[]string) *run {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return &run{log: slog.New(slog.DiscardHandler), journal: j, config: Config{Progress: func(s string) { *told = append(*told, s) }}}
}

func TestStageRecordsIntentBeforeEffect(t *testing.T) {
	var told []string
	r := testRun(t, &told)
	err := r.stage(t.Context(), stagePKI.of("pki/"), func(context.Context) error {
		steps, err := r.journal.Steps()
		if err != nil || len(steps) != 1 || !steps[0].Interrupted() || steps[0].Detail != "pki/" {
			t.Errorf("during the effect: got %+v, %v; want the stage begun", steps, err)
		}
		if s := r.state.read(); s.Stage != "checking the PKI" {
			t.Errorf("got the stage %q in status", s.Stage)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := r.journal.Steps(); err != nil || steps[0].Interrupted() {
		t.Errorf("after: got %+v, %v; want the stage ended", steps, err)
	}
	if len(told) != 1 || told[0] != "PKI checked" {
		t.Errorf("told %q", told)
	}
}

func TestFailedStageIsRecordedAndSaysWhatItDid(t *testing.T) {
	var told []string
	r := testRun(t, &told)
	cause := errors.New("disk full")
	err := r.stage(t.Context(), stagePayload, func(context.Context) error { return cause })
	if !errors.Is(err, cause) || err.Error() != "unpacking the payload: disk full" {
		t.Errorf("got %v", err)
	}
	steps, err := r.journal.Steps()
	if err != nil || steps[0].Interrupted() || !strings.Contains(steps[0].Error, "disk full") {
		t.Errorf("%+v, %v", steps, err)
	}
}

func TestInterruptedStageIsReported(t *testing.T) {
	var told []string
	r := testRun(t, &told)
	for _, name := range []string{stageCluster.name, stageControllers.name} { // kill -9 always interrupts controllers
		if err := r.journal.Begin(name, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.reportInterrupted(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.Contains(told[0], `"cluster"`) {
		t.Errorf("told %q", told)
	}
}

func TestRegionObjectIsOnlyDeclared(t *testing.T) {
	r := &region.Region{}
	r.Name = "tokyo"
	r.UID = "set-by-the-api"
	r.Spec.Networks.Provisioning.CIDR = "10.20.0.0/24"
	region.Default(r)
	o, err := r.Desired()
	if err != nil {
		t.Fatal(err)
	}
	if o.GetKind() != "Region" || o.GetAPIVersion() != "regiond.dev/v1alpha1" || o.GetName() != "tokyo" || o.GetUID() != "" {
		t.Errorf("%v", o.Object)
	}
	if _, has := o.Object["status"]; has {
		t.Errorf("got a status in the desired object")
	}
}
