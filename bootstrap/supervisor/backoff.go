package supervisor

import "time"

const (
	// firstBackOff is short: most ends are single events, and everything waits for the control plane.
	firstBackOff = 200 * time.Millisecond
	// maxBackOff bounds how long a repaired cause (a full disk emptied) goes unnoticed.
	maxBackOff = 30 * time.Second
	// stableRun is how long a process must have run for its next end to count as the first one.
	stableRun = time.Minute
)

// backOff is the wait before the next start after a number of failures in a row.
func backOff(failures int) time.Duration {
	wait := firstBackOff
	for range failures - 1 {
		if wait *= 2; wait >= maxBackOff {
			return maxBackOff
		}
	}
	return wait
}
