package region

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
)

// Host is an installed operating system on a Server, reported by its node agent. It has the
// name of its Server and is owned by it. An agent may read its own Host and write its status only.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.role`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Kernel",type=string,JSONPath=`.status.kernel`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Host struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HostSpec `json:"spec"`
	// +optional
	Status HostStatus `json:"status,omitempty"`
}

// HostList is a list of hosts.
//
// +kubebuilder:object:root=true
type HostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Host `json:"items"`
}

// HostSpec says what an installed system is to be.
type HostSpec struct {
	// ServerUID is the UID of the Server that this system was installed on; empty for a machine that
	// regiond did not install and that was enrolled.
	ServerUID string `json:"serverUID"`
	// Role of the host.
	Role Role `json:"role"`
	// Profile that the host was installed by.
	// +optional
	Profile string `json:"profile,omitempty"`
}

// ConditionHealthy of a Host: the agent found nothing wrong on the system.
const ConditionHealthy = "Healthy"

// ConditionTunnels of a Host with tunnels to other hosts: packets of the size that they need get to all that were tried.
const ConditionTunnels = "TunnelsPass"

// HostStatus is what the agent observes. The heartbeat is a Lease (coordination.k8s.io) of the
// same name in the namespace regiond-hosts, so that an idle host does not rewrite its status.
type HostStatus struct {
	// BootID from /proc/sys/kernel/random/boot_id; changes with every boot.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// BootTime of the kernel.
	// +optional
	BootTime *metav1.Time `json:"bootTime,omitempty"`
	// Kernel release, as uname -r.
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// Image version of the running root file system.
	// +optional
	Image string `json:"image,omitempty"`
	// Slot that is running: A or B.
	// +optional
	Slot string `json:"slot,omitempty"`
	// AgentVersion is the version of the agent.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// Release of OpenStack that the host's packages are of. Empty if it has none, or its agent does
	// not say.
	// +optional
	Release OpenStackRelease `json:"release,omitempty"`
	// Addresses of the host.
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// Inventory of the machine, as the agent read it at its start. The Server's status is filled from
	// it when that was lost, since a server in service is not restarted for an inspection.
	// +optional
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Configuration that the host runs. Its state is the condition Configured.
	// +optional
	Configuration *HostConfiguration `json:"configuration,omitempty"`
	// Tunnels of guests' networks to other hosts, as the agent tried them. Without it, the agent has not
	// looked, or the host has none.
	// +optional
	Tunnels *HostTunnels `json:"tunnels,omitempty"`
	// OpenStack is how the control plane of the host's cluster sees it. regiond's controller writes
	// it, the agent leaves it alone.
	// +optional
	OpenStack *HostOpenStack `json:"openstack,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostTunnels is what was found out about the ways to other ends of a host's tunnels. It is changed by
// merge patches, which take away what is null.
type HostTunnels struct {
	// MTU in bytes that the ways have to have: the size of the packets that carry guests' frames. 0 if
	// the host has no tunnels any more.
	MTU int32 `json:"mtu"`
	// Blocked are addresses of other ends that small packets get to, and such of this size don't.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Blocked []string `json:"blocked"`
}

// MaxBlockedTunnels bounds HostTunnels.Blocked: where more are blocked, the first ones say enough.
const MaxBlockedTunnels = 16

// HostOpenStack is a host as a node of an OpenStack cluster.
type HostOpenStack struct {
	// Cluster that the host is a node of.
	Cluster string `json:"cluster"`
	// Ready is true if the host runs its configuration, its services and agents are up, and it is
	// mapped to its cell.
	Ready bool `json:"ready"`
	// Message says why it is not ready.
	// +optional
	Message string `json:"message,omitempty"`
}

// HostConfiguration is what the agent attests of the configuration and of what reads it.
type HostConfiguration struct {
	// Digest of the configuration last applied completely, see machine/configuration.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Applied is when that was.
	// +optional
	Applied *metav1.Time `json:"applied,omitempty"`
	// Processes of the configuration's services.
	// +optional
	// +listType=map
	// +listMapKey=service
	Processes []HostProcess `json:"processes,omitempty"`
}

// HostProcess is the main process of a service.
type HostProcess struct {
	// Service that it is of, e.g. nova-compute.service.
	Service string `json:"service"`
	// State in the words of the service manager: active, activating, failed, inactive.
	State string `json:"state"`
	// PID of the main process, 0 if there is none.
	// +optional
	PID int32 `json:"pid,omitempty"`
	// Started is when the main process was started.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// ConfigDigest is the SHA-256 of the files that it was started with, see
	// configuration.Service.Digest.
	// +optional
	ConfigDigest string `json:"configDigest,omitempty"`
	// Restarts since the host booted.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// Image and Kernel that the process was started on.
	// +optional
	Image string `json:"image,omitempty"`
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// Message says why it does not run.
	// +optional
	Message string `json:"message,omitempty"`
}
