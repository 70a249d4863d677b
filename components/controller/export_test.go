package controller

// For tests of this package's start, and of what it looks at on the disk.
var (
	Doubt         = doubt
	DatabaseThere = databaseThere
	LeaveDecision = leave
)
