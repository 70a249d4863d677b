package diskimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// How long a chunk is fetched again and again.
const (
	// maxBadChunks: as many wrong checksums of one chunk in a row are no accident of transfer but a
	// damaged file, cable or memory.
	maxBadChunks = 5
	// fetchPatience is how long the image server may be away (regiond restarts, a switch reboots).
	fetchPatience = 5 * time.Minute
	// FetchTimeout of one request; 4 MiB in 60 s is 70 kB/s.
	FetchTimeout = 60 * time.Second
	// firstDelay and mostDelay between two tries, doubled from one to the next.
	firstDelay = 250 * time.Millisecond
	mostDelay  = 5 * time.Second
)

// Clock is time, so that tests need not wait.
type Clock interface {
	Now() time.Time
	// Sleep MUST return early, with an error, when the context ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// Fetcher fetches and checks chunks. It is safe for use by several goroutines.
type Fetcher struct {
	Client *http.Client
	// URL of the image, without a slash at its end.
	URL       string
	Clock     Clock
	refetched atomic.Int64
}

// Refetched counts the chunks that came with a wrong checksum.
func (f *Fetcher) Refetched() int { return int(f.refetched.Load()) }

// fetch returns the plain bytes of a chunk, valid until the decoder's next use, and compressed's buffer
// to be used again. Wrong bytes are fetched again a few times; an unreachable server is waited for.
func (f *Fetcher) fetch(ctx context.Context, c Chunk, decoder *Decoder, buffer []byte) (plain, reuse []byte, err error) {
	last := f.Clock.Now().Add(fetchPatience)
	bad := 0
	delay := firstDelay
	for {
		buffer, err = f.get(ctx, c, buffer)
		if err == nil {
			if plain, err = decoder.Decode(c, buffer); err == nil {
				return plain, buffer, nil
			}
			f.refetched.Add(1)
			if bad++; bad >= maxBadChunks {
				return nil, buffer, fmt.Errorf("fetched %d times, wrong each time: %w; verify the image on the seed host and this machine's memory", bad, err)
			}
		}
		if ctx.Err() != nil {
			return nil, buffer, context.Cause(ctx)
		}
		if f.Clock.Now().After(last) {
			return nil, buffer, fmt.Errorf("chunk %s: no success for %s: %w", c.SHA256, fetchPatience, err)
		}
		if err := f.Clock.Sleep(ctx, delay); err != nil {
			return nil, buffer, err
		}
		delay = min(2*delay, mostDelay)
	}
}

// get reads as many bytes of a chunk's file as the manifest says into the buffer; the checksum is up to the caller.
func (f *Fetcher) get(ctx context.Context, c Chunk, buffer []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, FetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+"/"+ChunkDir+"/"+c.SHA256, nil)
	if err != nil {
		return buffer, err
	}
	response, err := f.Client.Do(request)
	if err != nil {
		return buffer, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return buffer, fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	if int64(cap(buffer)) < c.Compressed {
		buffer = make([]byte, c.Compressed)
	}
	buffer = buffer[:c.Compressed]
	n, err := io.ReadFull(response.Body, buffer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return buffer, fmt.Errorf("GET %s: got %d bytes of %d", request.URL, n, c.Compressed)
	}
	return buffer, err
}
