package journal_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/journal"
)

// clock advances by a second at every reading.
func clock() func() time.Time {
	t := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { t = t.Add(time.Second); return t }
}

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path, clock())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestStepThatNeverReturnedIsSeenAsInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), journal.File)
	j := open(t, path)
	for _, err := range []error{
		j.Begin("pki", "pki/"), j.End("pki", nil),
		j.Begin("cluster", ""), j.End("cluster", errors.New("etcd: disk full")),
		j.Begin("cluster", ""), // regiond dies here
		j.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	steps, err := journal.ReadSteps(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0].Name != "pki" || steps[1].Name != "cluster" {
		t.Fatalf("steps %+v", steps)
	}
	if steps[0].Interrupted() || steps[0].Error != "" || steps[0].Detail != "pki/" {
		t.Errorf("pki: %+v", steps[0])
	}
	if !steps[1].Interrupted() || steps[1].Error != "" || steps[1].Runs != 2 {
		t.Errorf("cluster: %+v", steps[1])
	}
}

func TestStepsOfNoFileAreNone(t *testing.T) {
	steps, err := journal.ReadSteps(filepath.Join(t.TempDir(), "none"))
	if err != nil || steps != nil {
		t.Fatalf("%v, %v", steps, err)
	}
}

func TestIdentityIsRecordedOnceAndOthersAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), journal.File)
	was := journal.Identity{Region: "tokyo", Address: "10.20.0.2", Node: "seed"}
	j := open(t, path)
	if _, ok, err := j.Identity(); ok || err != nil {
		t.Fatalf("before the first start: %v, %v", ok, err)
	}
	if err := j.CheckIdentity(was); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	defer j.Close()
	if err := j.CheckIdentity(was); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now  journal.Identity
		want string
	}{
		{journal.Identity{Region: "osaka", Address: "10.20.0.2", Node: "seed"}, `made for region "tokyo"`},
		{journal.Identity{Region: "tokyo", Address: "10.20.0.9", Node: "seed"}, "Give the host the address 10.20.0.2 again"},
		{journal.Identity{Region: "tokyo", Address: "10.20.0.2", Node: "x"}, "hostnamectl set-hostname seed"},
	} {
		err := j.CheckIdentity(c.now)
		if !errors.Is(err, journal.ErrIdentityChanged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.now, err)
		}
	}
	if id, ok, err := j.Identity(); id != was || !ok || err != nil {
		t.Errorf("recorded %+v, %v, %v", id, ok, err)
	}
}

func TestSecondOpenIsRefusedInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), journal.File)
	j := open(t, path)
	defer j.Close()
	_, err := journal.Open(path, clock())
	if err == nil || !strings.Contains(err.Error(), "held open by another process") {
		t.Fatalf("got %v", err)
	}
}
