// Package status is what `regiond status` shows of all rooms: a model built by a pure function from what was observed, and
// its rendering.
package status

import (
	"time"

	"regiond.dev/regiond/region"
)

// Region is the state of a region as people and programs read it.
type Region struct {
	Region string `json:"region,omitempty"`
	// Ready: the control plane is ready, and so is every server and OpenStack cluster.
	Ready bool `json:"ready"`
	// Message says in one sentence what is awaited, empty when ready.
	Message      string       `json:"message,omitempty"`
	ControlPlane ControlPlane `json:"controlPlane"`
	Servers      []Server     `json:"servers"`
	Hosts        []Host       `json:"hosts"`
	OpenStack    []OpenStack  `json:"openstack"`
}

// ControlPlane of the region.
type ControlPlane struct {
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	Version string `json:"version,omitempty"`
	// PID of regiond, and since when it runs.
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Started: regiond finished its bootstrap and runs the controllers.
	Started bool `json:"started"`
	// Components in their order of start.
	Components []Component `json:"components"`
	Nodes      []Node      `json:"nodes"`
	// Certificate that ends first.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Problems that regiond keeps trying to get over.
	Problems []string `json:"problems,omitempty"`
}

// Component is one process of the control plane.
type Component struct {
	Name     string    `json:"name"`
	Ready    bool      `json:"ready"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Message  string    `json:"message,omitempty"`
	// Log is the path of its log.
	Log string `json:"log"`
}

// Node of Kubernetes.
type Node struct {
	Name    string    `json:"name"`
	Ready   bool      `json:"ready"`
	Since   time.Time `json:"since,omitzero"`
	Version string    `json:"version,omitempty"`
	Address string    `json:"address,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Certificate of the control plane.
type Certificate struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
}

// Server of the region.
type Server struct {
	Name    string             `json:"name"`
	BMC     string             `json:"bmc"`
	Power   region.PowerState  `json:"power,omitempty"`
	Phase   region.ServerPhase `json:"phase,omitempty"`
	Ready   bool               `json:"ready"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message,omitempty"`
	// Since is when the condition that the reason and the message are of last changed.
	Since time.Time `json:"since,omitzero"`
	// Heartbeat of the agent on it, last seen.
	Heartbeat time.Time `json:"heartbeat,omitzero"`
}

// Host is an installed system.
type Host struct {
	Name      string      `json:"name"`
	Role      region.Role `json:"role,omitempty"`
	Image     string      `json:"image,omitempty"`
	Slot      string      `json:"slot,omitempty"`
	Kernel    string      `json:"kernel,omitempty"`
	Booted    time.Time   `json:"booted,omitzero"`
	Heartbeat time.Time   `json:"heartbeat,omitzero"`
	// Healthy is the condition's status: True, False or Unknown.
	Healthy string `json:"healthy"`
	Message string `json:"message,omitempty"`
}
