package httpboot

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections without buffers, whose deadlines are those of the test's clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A reader that stops, or takes less than about 100 kB/s, loses its place soon; a slow one that keeps taking gets the
// whole file, however long that lasts.
func TestSlowReadersLoseTheirPlaces(t *testing.T) {
	const size = 4 << 20
	for name, tc := range map[string]struct {
		// step bytes are read every second; 0 reads nothing after the header.
		step int64
		// cut is how long the place may be held at most, when the reader is to lose it.
		cut   time.Duration
		whole bool
	}{
		"stops":                  {cut: 10 * time.Second},
		"a byte a second":        {step: 1, cut: 10 * time.Second},
		"50 kB/s":                {step: 50e3, cut: 10 * time.Second},
		"120 kB/s for 35 s":      {step: 120e3, whole: true},
		"as fast as it can read": {step: size, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if err := os.WriteFile(filepath.Join(f.dir, "images/node/v1/chunks", chunkID), bytes.Repeat([]byte{7}, size), 0o644); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				f.transfers = make(chan struct{}, 1) // of this bubble
				l := pipes{make(chan net.Conn), make(chan struct{})}
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- f.Serve(ctx, l) }()
				client, server := net.Pipe()
				l.conns <- server
				began := time.Now()
				if _, err := io.WriteString(client, "GET /images/v1/chunks/"+chunkID+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				response, err := http.ReadResponse(bufio.NewReaderSize(client, 16), nil)
				if err != nil || response.StatusCode != http.StatusOK {
					t.Fatalf("answer %+v (%v)", response, err)
				}
				held := make(chan time.Duration, 1)
				go func() { // waits for the place
					f.transfers <- struct{}{}
					held <- time.Since(began)
				}()
				var got int64
				for err == nil && tc.step > 0 && time.Since(began) < time.Minute {
					var n int64
					n, err = io.CopyN(io.Discard, response.Body, tc.step)
					got += n
					<-time.After(time.Second) // of the bubble's clock
				}
				if tc.whole {
					if got != size {
						t.Errorf("got %d bytes of %d (%v)", got, size, err)
					}
				} else if h := <-held; h > tc.cut || got == size {
					t.Errorf("the place was held for %s, %d bytes were read; want at most %s", h, got, tc.cut)
				}
				if err := client.Close(); err != nil {
					t.Error(err)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
