package enroll_test

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"regiond.dev/regiond/machine/enroll"
)

// What an error says decides whether an installer or an agent tries again at once, later, or not with this token.
func TestErrorsOfAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		code    int
		body    string
		refused bool
		denied  bool
		text    string
	}{
		"refused by regiond":              {403, `{"reason":"WrongServer","message":"another machine"}`, true, true, "403 Forbidden: WrongServer: another machine"},
		"an unknown token":                {401, `{"reason":"TokenUnknown","message":"m"}`, true, true, "401 Unauthorized: TokenUnknown: m"},
		"no job":                          {409, `{"reason":"NoJob","message":"m"}`, true, false, "409 Conflict: NoJob: m"},
		"too many requests":               {429, `{"reason":"TooMany","message":"m"}`, false, false, "429 Too Many Requests: TooMany: m"},
		"regiond restarts":                {503, `{"reason":"Unavailable","message":"m"}`, false, false, "503 Service Unavailable: Unavailable: m"},
		"not regiond":                     {502, "<html>bad gateway</html>", false, false, "502 Bad Gateway"},
		"a path that regiond has not":     {404, "404 page not found\n", false, false, "404 Not Found"},
		"JSON of something else":          {403, `{"message":"proxy says no"}`, false, true, "403 Forbidden"},
		"the answer is JSON of no answer": {200, "hello", false, false, "decode the answer"},
	} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.code)
			if _, err := io.WriteString(w, c.body); err != nil {
				t.Error(err)
			}
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		client, err := enroll.NewClient(s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Inventory(t.Context(), "token", enroll.InventoryReport{})
		if err == nil || !strings.Contains(err.Error(), c.text) || enroll.Refused(err) != c.refused || enroll.Denied(err) != c.denied {
			t.Errorf("%s: got %v, refused %v, denied %v; want %q, %v, %v", name, err, enroll.Refused(err), enroll.Denied(err), c.text, c.refused, c.denied)
		}
		if answered := (*enroll.Error)(nil); c.code != 200 && (!errors.As(err, &answered) || answered.Status != c.code) {
			t.Errorf("%s: the status is not in %v", name, err)
		}
		client.Close()
		s.Close()
	}
}
