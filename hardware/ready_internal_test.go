package hardware

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Another web server on netboot's port is not taken for it.
func TestServesIPXE(t *testing.T) {
	for content, want := range map[string]bool{"#!ipxe\ndhcp\n": true, "<html>": false, "": false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Error(err)
			}
		}))
		if got := servesIPXE(t.Context(), s.URL); got != want {
			t.Errorf("%q: got %v, want %v", content, got, want)
		}
		s.Close()
	}
}
