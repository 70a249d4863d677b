package diskimage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// ErrChecksum says that a chunk's bytes are not those of the manifest. Fetching it again may help.
var ErrChecksum = errors.New("checksum mismatch")

// Decoder checks and unpacks chunks. It keeps its buffers, so each goroutine needs its own.
type Decoder struct {
	zstd  *zstd.Decoder
	plain []byte
}

// NewDecoder returns a decoder that holds at most one chunk in memory.
func NewDecoder() (*Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(ChunkSize), zstd.WithDecoderMaxWindow(ChunkSize))
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return &Decoder{zstd: d, plain: make([]byte, 0, ChunkSize)}, nil
}

// Close frees the decoder.
func (d *Decoder) Close() { d.zstd.Close() }

// Decode returns the plain bytes of a chunk; they are valid until the next call. The SHA-256 is
// checked before anything is unpacked, so that the decompressor never sees bytes that the
// image's builder did not write.
func (d *Decoder) Decode(c Chunk, compressed []byte) ([]byte, error) {
	sum := sha256.Sum256(compressed)
	if got := hex.EncodeToString(sum[:]); got != c.SHA256 {
		return nil, fmt.Errorf("chunk %s: %w: %d bytes have sha256 %s", c.SHA256, ErrChecksum, len(compressed), got)
	}
	plain, err := d.zstd.DecodeAll(compressed, d.plain[:0])
	if err != nil {
		return nil, fmt.Errorf("chunk %s: unpack: %w", c.SHA256, err)
	}
	if int64(len(plain)) != c.Length {
		return nil, fmt.Errorf("chunk %s: unpacks to %d bytes, the manifest says %d", c.SHA256, len(plain), c.Length)
	}
	return plain, nil
}

var zeros [64 << 10]byte

// AllZero says whether b holds nothing but zeros.
func AllZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}
