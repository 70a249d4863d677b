package lab

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// panicText is how Linux begins the last line of a kernel that can't go on (kernel/panic.c).
const panicText = "Kernel panic - not syncing"

// panics are the lines of kernels that ended on a console, from an offset of its log on, and where to go on the next time. A line
// that has no end yet is left for then.
func panics(log string, from int64) (lines []string, next int64, err error) {
	f, err := os.Open(log)
	if errors.Is(err, fs.ErrNotExist) { // the machine was never on
		return nil, from, nil
	}
	if err != nil {
		return nil, from, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if err != nil {
		return nil, from, err
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	for line := range bytes.Lines(b[:whole]) {
		if i := bytes.Index(line, []byte(panicText)); i >= 0 {
			lines = append(lines, string(bytes.TrimSpace(line[i:])))
		}
	}
	return lines, from + int64(whole), nil
}
