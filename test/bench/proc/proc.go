// Package proc reads what processes use from proc(5).
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage of some processes.
type Usage struct {
	// PSS is their memory in bytes: a page that several processes share counts in part for each.
	PSS float64
	// CPU is processor time in per cent of a core.
	CPU float64
}

// Measure what processes use: processor time over a window, memory at its end. list names them, at
// both ends.
func Measure(ctx context.Context, list func() ([]int, error), window time.Duration) (u Usage, err error) {
	before, err := ticks(list)
	if err != nil {
		return u, err
	}
	select {
	case <-ctx.Done():
		return u, ctx.Err()
	case <-time.After(window):
	}
	after, err := ticks(list)
	if err != nil {
		return u, err
	}
	for pid, t := range after {
		if b, ok := before[pid]; ok {
			u.CPU += t - b
		}
		pss, err := PSS(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return u, err
		}
		u.PSS += pss
	}
	// Clock ticks are 10 ms (USER_HZ is 100 on amd64): one a second is one per cent.
	u.CPU /= window.Seconds()
	return u, nil
}

func ticks(list func() ([]int, error)) (map[int]float64, error) {
	pids, err := list()
	if err != nil {
		return nil, err
	}
	t := map[int]float64{}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // ended meanwhile
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		user, err1 := strconv.ParseFloat(f[11], 64)
		system, err2 := strconv.ParseFloat(f[12], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		t[pid] = user + system
	}
	return t, nil
}

// PSS of a process in bytes; fs.ErrNotExist when it has ended.
func PSS(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fs.ErrNotExist // ended meanwhile
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb * 1024, err
		}
	}
	return 0, fmt.Errorf("no Pss in smaps_rollup of process %d", pid)
}
