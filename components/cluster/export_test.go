package cluster

// For tests of this package's start, and of what it looks at on the disk.
var (
	Unchecked     = unchecked
	DatabaseThere = databaseThere
	LeaveDecision = leave
	Pause         = pause
	RetryAfter    = retryAfter
	HostsAge      = hostsAge
)

// Summarise is summarise.
var Summarise = summarise
