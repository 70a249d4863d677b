package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/supervisor"
)

func TestMissingTables(t *testing.T) {
	const own = "regiond-0a1b2c3d"
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	proxy := func(ready bool, age time.Duration) supervisor.Component {
		return supervisor.Component{Name: "kube-proxy", Ready: ready, Since: now.Add(-age)}
	}
	for _, c := range []struct {
		name    string
		present []string
		proxy   supervisor.Component
		want    []string
	}{
		{"all there", []string{"filter", own, "kube-proxy"}, proxy(true, time.Hour), nil},
		{"flushed", nil, proxy(true, time.Hour), []string{own, "kube-proxy"}},
		{"ours only", []string{"kube-proxy"}, proxy(true, time.Hour), []string{own}},
		{"another region's does not count", []string{"regiond-99999999", "kube-proxy"}, proxy(true, time.Hour), []string{own}},
		{"kube-proxy has just started", []string{own}, proxy(true, time.Second), nil},
		{"kube-proxy is starting", []string{own}, proxy(false, time.Hour), nil},
		{"kube-proxy is not running", []string{own}, supervisor.Component{}, nil},
	} {
		if got := missingTables(c.present, own, c.proxy, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestProblemSaysWhatIsMissingSinceWhen(t *testing.T) {
	var w tables
	if p := w.problem(); p != "" {
		t.Errorf("before anything is missing: got %q, want nothing", p)
	}
	first := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	if !w.note([]string{"regiond-0a1b2c3d", "kube-proxy"}, first) || w.note([]string{"regiond-0a1b2c3d", "kube-proxy"}, first.Add(time.Second)) {
		t.Error("got a change reported other than once")
	}
	w.note([]string{"kube-proxy"}, first.Add(time.Minute))
	w.fail(errors.New("nft: permission denied"))
	for _, want := range []string{"since 2026-12-01T12:00:00Z: kube-proxy;", "which failed: nft: permission denied"} {
		if p := w.problem(); !strings.Contains(p, want) {
			t.Errorf("%q does not contain %q", p, want)
		}
	}
	w.note(nil, first.Add(time.Hour))
	if p := w.problem(); p != "" {
		t.Errorf("after they are restored: got %q, want nothing", p)
	}
}
