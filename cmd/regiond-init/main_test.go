package main

import (
	"strings"
	"testing"
)

func TestMode(t *testing.T) {
	for line, want := range map[string]string{"": "install", "quiet regiond.mode=boot": "boot", "regiond.mode=boot regiond.mode=install": "install"} {
		if got := mode(strings.Fields(line)); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}
