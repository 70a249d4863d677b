package gate

import (
	"context"
	"io"
	"time"
)

// UploadPause is longer than uWSGI waits for a chunk unless it is told otherwise, 4 seconds
// (https://uwsgi-docs.readthedocs.io/en/latest/Options.html#chunked-input-timeout).
const UploadPause = 5 * time.Second

// chunkSize in bytes. HTTP's client sends what one Read returns as one chunk, since the length of the whole is not known to it.
const chunkSize = imageSize / 4

// slow reads content in chunks, and pauses before the second one.
type slow struct {
	ctx     context.Context
	content []byte
	pause   time.Duration
	chunks  int
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.content) == 0 {
		return 0, io.EOF
	}
	if s.chunks++; s.chunks == 2 {
		t := time.NewTimer(s.pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	n := copy(p, s.content[:min(chunkSize, len(s.content))])
	s.content = s.content[n:]
	return n, nil
}
