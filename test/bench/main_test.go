package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// What was measured is not lost when something else fails, and what comes after that is measured.
func TestMeasureGoesOn(t *testing.T) {
	value := func(v float64) func() (float64, error) { return func() (float64, error) { return v, nil } }
	figures, err := measure(measurement{figure{name: "a"}, value(1)},
		measurement{figure{name: "b"}, func() (float64, error) { return 0, errors.New("the seed host ended") }},
		measurement{figure{name: "c"}, value(3)})
	if err == nil || !strings.Contains(err.Error(), "b: the seed host ended") {
		t.Errorf("got %v, want the failure with its name", err)
	}
	if len(figures) != 2 || figures[0].value != 1 || figures[1].value != 3 {
		t.Errorf("got %+v, want the figures a and c", figures)
	}
}

// A part that fails does not end the others, and what it had measured is printed with theirs.
func TestRunGoesOn(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), config{}, []part{
		{"first", func(context.Context, config) ([]figure, string, error) {
			return []figure{{name: "a", value: 1, limit: 4, unit: "s"}}, "", errors.New("the lab is not up")
		}},
		{"second", func(context.Context, config) ([]figure, string, error) {
			return []figure{{name: "b", value: 3, unit: "objects"}, {name: "c", value: 0.037, limit: 5, unit: "%"}}, "said besides", nil
		}},
	}, &out)
	if err == nil || err.Error() != "first: the lab is not up" {
		t.Errorf("got %v, want the failure with its part", err)
	}
	want := `FIGURE  MEASURED     LIMIT      RATIO
a       1.0 s        4 s        0.25
b       3.0 objects  0 objects  -
c       0.04 %       5 %        0.01

said besides
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, "server openstack kubeadm rendering registry image sizes"},
		{[]string{"sizes", "kubeadm"}, "kubeadm sizes"},
		{[]string{"sizes", "weight"}, `there is no part "weight": bench -h names them`},
	} {
		chosen, err := choose(c.names)
		var names []string
		for _, p := range chosen {
			names = append(names, p.name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c.names, got, c.want)
		}
	}
}
