package httpboot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"

	"regiond.dev/regiond/machine/enroll"
)

var ticketURL = regexp.MustCompile(`http://10\.99\.0\.1(/netboot/ticket/[0-9a-f]{32}\.cpio)`)

// promised asks for a script and returns the path of its ticket.
func (f *fixture) promised(t *testing.T) string {
	t.Helper()
	m := ticketURL.FindStringSubmatch(f.get(ask, from).Body.String())
	if m == nil {
		t.Fatal("no ticket in the script")
	}
	return m[1]
}

func TestTicket(t *testing.T) {
	f := newFixture(t)
	ticket := enroll.Ticket{URL: "https://10.99.0.1:7443", CA: "PEM", Token: "secret", MACAddress: mac, Time: "2026-11-29T12:00:00Z"}
	f.job = &Job{Ticket: ticket}
	path := f.promised(t)
	for _, other := range []string{"10.99.0.101:4711", "10.99.0.1:80", "[::1]:1", "nonsense"} {
		if w := f.get(path, other); w.Code != 404 {
			t.Errorf("%s was given another's ticket: %d", other, w.Code)
		}
	}
	w := f.get(path, "10.99.0.100:4712") // another connection of the same machine
	if w.Code != 200 {
		t.Fatal(w.Code)
	}
	var names []string
	archive := cpio.NewReader(bytes.NewReader(w.Body.Bytes()))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode))
		if "/"+h.Name == enroll.TicketFile {
			var got enroll.Ticket
			if err := json.NewDecoder(archive).Decode(&got); err != nil || got != ticket {
				t.Errorf("%+v %v", got, err)
			}
		}
	}
	if want := "[etc 40755 etc/regiond 40755 etc/regiond/ticket.json 100600]"; fmt.Sprint(names) != want {
		t.Errorf("archive holds %v, want %s", names, want)
	}
	// A transfer may break off, but not for ever.
	for range ticketReads - 1 {
		if w := f.get(path, from); w.Code != 200 {
			t.Error(w.Code)
		}
	}
	if w := f.get(path, from); w.Code != 404 {
		t.Errorf("read %d times", ticketReads+1)
	}
}

func TestTicketsEnd(t *testing.T) {
	f := newFixture(t)
	f.job = &Job{Ticket: enroll.Ticket{Token: "secret"}}
	first := f.promised(t)
	second := f.promised(t)
	if w := f.get(first, from); w.Code != 404 {
		t.Error("the earlier ticket of a machine is still there")
	}
	f.do(http.MethodHead, ask, from)
	f.do(http.MethodHead, second, from)
	f.advance(ticketTime - time.Second)
	if w := f.get(second, from); w.Code != 200 {
		t.Errorf("%d before its end", w.Code)
	}
	f.advance(time.Second)
	if w := f.get(second, from); w.Code != 404 {
		t.Errorf("%d after its end", w.Code)
	}
	// After a restart nothing is known of it.
	third := f.promised(t)
	if w := newFixture(t).get(third, from); w.Code != 404 {
		t.Error(w.Code)
	}
}
