package server

import "time"

// How long is waited for what. All deadlines are computed from times in the status.
const (
	// activePoll and idlePoll are how old an observation of the power state may be while a machine
	// is being installed, and otherwise. BMCs freeze when they are asked in bursts.
	activePoll = 10 * time.Second
	idlePoll   = 2 * time.Minute
	// refusedRetry is how often refused credentials are tried: the account on the BMC may have been
	// corrected. BMCs that lock a user out do so after three to five failures within minutes.
	refusedRetry = time.Hour
	// loaderDeadline is from the first request for an iPXE script to the installer's first report:
	// kernel, initramfs and inventory.
	loaderDeadline = 5 * time.Minute
	// installerDeadline is between two reports of an installer.
	installerDeadline = 3 * time.Minute
	// joinDeadline is from the installation's end to the agent's first report: firmware and first boot.
	joinDeadline = 15 * time.Minute
	// shutdownTime is what a system gets to shut down. systemd gives its services 90 s.
	shutdownTime = 2 * time.Minute
	// bootLife is how long after its last sign what a machine runs is taken for the network boot that regiond asked for. Deadlines
	// end bootMargin before, so that there is time to act, by a BMC that has to be asked more than once.
	bootLife   = 40 * time.Minute
	bootMargin = 10 * time.Minute
	// heartbeatPoll is how often a Lease is read that this process has not seen renewed yet.
	heartbeatPoll = 5 * time.Second
	// conflictRetry is how soon a decision is made again whose status someone else has written meanwhile.
	conflictRetry = 100 * time.Millisecond
	// startEvery is the time between two machines that are powered on, after the first startBurst: a cold start of a hall is not to
	// trip its fuses, and all that netboots at once waits for the same server.
	startEvery = 2 * time.Second
	startBurst = 8
	// surveyLife is how long the answer that no guest is on a host holds, and surveyEvery how often it is asked for again.
	surveyLife  = 30 * time.Second
	surveyEvery = time.Minute
)

// AnswerTime is how long after a requested boot a ticket may be given. It must reach over the longest netbootDeadline.
const AnswerTime = 25 * time.Minute

// TicketTime is how long a ticket that was given may wait for its first use: the installer is loaded and lists the hardware.
const TicketTime = 10 * time.Minute

// netbootDeadline is from power-on to the first request for an iPXE script. It grows, since big
// machines need ten minutes and more for their self-test.
func netbootDeadline(attempts int32) time.Duration {
	return min(time.Duration(max(attempts, 1))*5*time.Minute, 20*time.Minute)
}

// retryAfter is the least time between two attempts to netboot, counted from the earlier one's last sign.
// Switches hold a port down for minutes after LACP fell silent; trying faster does not help. Between late attempts the
// machine is off for most of the time: a disk that comes up instead of the network is not to be cut off every few minutes.
func retryAfter(attempts int32) time.Duration {
	steps := []time.Duration{0, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
		5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour}
	return steps[min(max(int(attempts), 0), len(steps)-1)]
}
