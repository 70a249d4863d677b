package httpboot

import (
	"io"
	"net/http"
	"time"
)

// The least that a reader has to take, or it loses its place: some 100 kB/s, measured piece by piece, so that one who
// stops reading is found out within the time of one piece, however long the file is.
const (
	pieceLength = 1 << 20
	pieceTime   = 10 * time.Second
)

// place waits for one of the transfers' places. The returned function gives it back.
func (s *Server) place(w http.ResponseWriter, r *http.Request) (func(), bool) {
	select {
	case s.transfers <- struct{}{}:
	case <-r.Context().Done():
		return nil, false
	}
	// The time in the queue is not the client's fault.
	extend(w)
	return func() { <-s.transfers }, true
}

// extend gives the time of one piece from now on. Only in tests is there no connection to have a deadline.
func extend(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pieceTime))
}

// ReadFrom sends a file piece by piece, each within its time. The pieces of an *io.LimitedReader, which is what
// http.ServeContent copies from, stay ones of the file itself, so that the kernel can send them (sendfile(2)).
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	whole, limited := src.(*io.LimitedReader)
	if !limited {
		whole = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	var sent int64
	for whole.N > 0 {
		extend(r.ResponseWriter)
		n, err := io.Copy(r.ResponseWriter, &io.LimitedReader{R: whole.R, N: min(whole.N, pieceLength)})
		sent += n
		r.n += n
		whole.N -= n
		if err != nil || n < pieceLength {
			return sent, err
		}
	}
	return sent, nil
}
