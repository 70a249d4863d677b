package server

import "time"

// How long is waited for what. All deadlines are computed from times in the status.
const (
	// activePoll and idlePoll are how old an observation of the power state may be while a machine
	// is being installed, and otherwise. BMCs freeze when they are asked in bursts.
	activePoll = 10 * time.Second
	idlePoll   = 2 * time.Minute
	// loaderDeadline is from the first request for an iPXE script to the installer's first report:
	// kernel, initramfs and inventory.
	loaderDeadline = 5 * time.Minute
	// installerDeadline is between two reports of an installer.
	installerDeadline = 3 * time.Minute
	// joinDeadline is from the installation's end to the agent's first report: firmware and first boot.
	joinDeadline = 15 * time.Minute
)

// netbootDeadline is from power-on to the first request for an iPXE script. It grows, since big
// machines need ten minutes and more for their self-test.
func netbootDeadline(attempts int32) time.Duration {
	return min(time.Duration(max(attempts, 1))*5*time.Minute, 20*time.Minute)
}

// retryAfter is the least time between two attempts to netboot, counted from the earlier one.
// Switches hold a port down for minutes after LACP fell silent; trying faster does not help.
func retryAfter(attempts int32) time.Duration {
	steps := []time.Duration{0, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
		5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}
	return steps[min(max(int(attempts), 0), len(steps)-1)]
}
