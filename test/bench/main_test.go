package main

import (
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
