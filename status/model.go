// Package status is what `regiond status` shows of all rooms: a model, built from observed facts by
// a pure function, and its rendering.
package status

import (
	"time"

	"regiond.dev/regiond/region"
)

// Region is the state of a region for people and programs to read.
type Region struct {
	Region string `json:"region,omitempty"`
	// Ready: the control plane is ready, and so is every server and OpenStack cluster.
	Ready bool `json:"ready"`
	// Message says in one sentence what the region is waiting for; empty when ready.
	Message      string       `json:"message,omitempty"`
	ControlPlane ControlPlane `json:"controlPlane"`
	Servers      []Server     `json:"servers"`
	Hosts        []Host       `json:"hosts"`
	OpenStack    []OpenStack  `json:"openstack"`
}

// ControlPlane is the state of the region's control plane.
type ControlPlane struct {
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	Version string `json:"version,omitempty"`
	// PID of regiond, and the time it started.
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Started: regiond finished its bootstrap and runs the controllers.
	Started bool `json:"started"`
	// Components in the order in which they start.
	Components []Component `json:"components"`
	Nodes      []Node      `json:"nodes"`
	// Certificate that expires first.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Problems that regiond keeps retrying.
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
	// Log is the path of its log file.
	Log string `json:"log"`
}

// Node is a node of Kubernetes.
type Node struct {
	Name    string    `json:"name"`
	Ready   bool      `json:"ready"`
	Since   time.Time `json:"since,omitzero"`
	Version string    `json:"version,omitempty"`
	Address string    `json:"address,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Certificate is one certificate of the control plane.
type Certificate struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
}

// Server is one server of the region.
type Server struct {
	Name    string             `json:"name"`
	BMC     string             `json:"bmc"`
	Power   region.PowerState  `json:"power,omitempty"`
	Phase   region.ServerPhase `json:"phase,omitempty"`
	Ready   bool               `json:"ready"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message,omitempty"`
	// Since is when the condition that gives Reason and Message last changed.
	Since time.Time `json:"since,omitzero"`
	// Heartbeat is the last heartbeat of its agent.
	Heartbeat time.Time `json:"heartbeat,omitzero"`
}

// Host is one host: an installed system that runs the agent.
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
