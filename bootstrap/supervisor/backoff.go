package supervisor

import "time"

const (
	// firstBackOff is short: most exits are single events, and everything waits for the control plane.
	firstBackOff = 200 * time.Millisecond
	// maxBackOff bounds how long it takes to notice that a cause has been fixed (e.g. a full disk).
	maxBackOff = 30 * time.Second
	// stableRun is how long a process must have run for its next exit to count as the first failure.
	stableRun = time.Minute
)

// backOff returns the wait before the next start after a number of consecutive failures.
func backOff(failures int) time.Duration {
	wait := firstBackOff
	for range failures - 1 {
		if wait *= 2; wait >= maxBackOff {
			return maxBackOff
		}
	}
	return wait
}
