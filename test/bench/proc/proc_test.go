package proc

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// A process that works uses a processor and memory; one that has ended is left out.
func TestMeasure(t *testing.T) {
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		for !stop.Load() {
		}
	}()
	const ended = 1 << 22 // above the highest number of a process, see proc(5), pid_max
	u, err := Measure(t.Context(), func() ([]int, error) { return []int{os.Getpid(), ended}, nil }, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if most := float64(100 * runtime.NumCPU()); u.CPU <= 0 || u.CPU > most {
		t.Errorf("got %.1f %% of a core, want more than 0 and at most %.0f", u.CPU, most)
	}
	if u.PSS < 1e6 || u.PSS > 1e9 {
		t.Errorf("got %.0f bytes, want what a test program takes: 1 MB to 1 GB", u.PSS)
	}
	if _, err := PSS(ended); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of a process that has ended, want %v", err, fs.ErrNotExist)
	}
}
