package diskimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// splitters is how many windows are read and compressed at once.
const splitters = 2

// Split cuts the first size bytes of a partition's content into chunks, writes them to dir under
// their SHA-256 and returns them in order. All-zero MiB are left out. Chunks never cross a multiple
// of ChunkSize, so that a change in one place of a file system leaves the other chunks as they
// were, and the same content always gives the same chunks. A chunk that dir already holds is
// replaced by the same bytes. size must be a multiple of 1 MiB; content that ends earlier (a
// file shorter than its partition) counts as zeros.
func Split(ctx context.Context, content io.ReaderAt, size int64, dir string) ([]Chunk, error) {
	if size <= 0 || size%MiB != 0 {
		return nil, fmt.Errorf("split partition into chunks: size %d is not a positive multiple of 1 MiB", size)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("split partition into chunks: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	windows := (size + ChunkSize - 1) / ChunkSize
	found := make([][]Chunk, windows)
	next := make(chan int64)
	var group sync.WaitGroup
	for range splitters {
		group.Go(func() {
			if err := splitWindows(next, content, size, dir, found); err != nil {
				cancel(err)
			}
		})
	}
feed:
	for w := range windows {
		select {
		case next <- w:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("split partition into chunks: %w", err)
	}
	var chunks []Chunk
	for _, c := range found {
		chunks = append(chunks, c...)
	}
	return chunks, nil
}

func splitWindows(next <-chan int64, content io.ReaderAt, size int64, dir string, found [][]Chunk) error {
	// One goroutine in each encoder: its output depends on nothing but the input.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(ChunkSize), zstd.WithEncoderCRC(false))
	if err != nil {
		return err
	}
	defer encoder.Close()
	buffer := make([]byte, ChunkSize)
	var compressed []byte
	for w := range next {
		start := w * ChunkSize
		window := buffer[:min(ChunkSize, size-start)]
		n, err := content.ReadAt(window, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read at %d: %w", start, err)
		}
		clear(window[n:])
		for _, run := range nonZeroRuns(window) {
			compressed = encoder.EncodeAll(window[run.Offset:run.Offset+run.Length], compressed[:0])
			sum := sha256.Sum256(compressed)
			c := Chunk{Offset: start + run.Offset, Length: run.Length, SHA256: hex.EncodeToString(sum[:]), Compressed: int64(len(compressed))}
			if err := writeFile(filepath.Join(dir, c.SHA256), compressed); err != nil {
				return err
			}
			found[w] = append(found[w], c)
		}
	}
	return nil
}

// nonZeroRuns returns the runs of MiB that are not all zero.
func nonZeroRuns(window []byte) []Range {
	var runs []Range
	for at := 0; at < len(window); at += MiB {
		end := min(at+MiB, len(window))
		if AllZero(window[at:end]) {
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last].Offset+runs[last].Length == int64(at) {
			runs[last].Length += int64(end - at)
		} else {
			runs = append(runs, Range{int64(at), int64(end - at)})
		}
	}
	return runs
}

// writeFile replaces a file in one step, so that a chunk of that name is never seen half written.
func writeFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
