// Package service is what the agent knows of the services of its host, and how it asks systemd for it.
package service

import "time"

// States of a unit in systemd's words (systemd(1), UNITS).
const (
	Active       = "active"
	Reloading    = "reloading"
	Activating   = "activating"
	Deactivating = "deactivating"
	Inactive     = "inactive"
	Failed       = "failed"
)

// State of a service.
type State struct {
	Name string `json:"name"`
	// Active is one of the states above, Sub the manager's finer word for it.
	Active string `json:"active"`
	Sub    string `json:"sub"`
	// Missing: there is no unit file of that name.
	Missing bool `json:"missing,omitempty"`
	// PID of the main process, 0 if there is none.
	PID int `json:"pid,omitempty"`
	// Invocation names this run of the service; another start, also one that nobody asked for, has another.
	Invocation string `json:"invocation,omitempty"`
	// Started is when the main process was started, or last was, if none runs.
	Started time.Time `json:"started"`
	// Restarts that the manager made by itself.
	Restarts int `json:"restarts,omitempty"`
	// Enabled: it is started at boot.
	Enabled bool `json:"enabled"`
	// Stale: the manager has not read the unit file that is on disk.
	Stale bool `json:"stale,omitempty"`
	// Message says why it failed.
	Message string `json:"message,omitempty"`
}

// Runs says whether the service does what it should: a oneshot that has done its work is active, too.
func (s State) Runs() bool { return s.Active == Active || s.Active == Reloading }
