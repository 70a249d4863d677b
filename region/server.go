package region

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/machine/inventory"
)

// Server is one physical (or lab) machine, known by its BMC.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="BMC",type=string,JSONPath=`.spec.bmc.address`
// +kubebuilder:printcolumn:name="Power",type=string,JSONPath=`.status.power`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ServerSpec `json:"spec"`
	// +optional
	Status ServerStatus `json:"status,omitempty"`
}

// ServerList is a list of servers.
//
// +kubebuilder:object:root=true
type ServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Server `json:"items"`
}

// ServerSpec is what the operator wants of a server.
type ServerSpec struct {
	// BMC of the server.
	BMC BMCEndpoint `json:"bmc"`
	// Profile overrides the matching of profiles.
	// +optional
	Profile string `json:"profile,omitempty"`
	// MACAddresses of the server's NICs. They tell machines apart whose firmware has neither a system
	// UUID nor a serial number of its own: a machine without one of them is not taken for this server.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	// +listType=set
	MACAddresses []string `json:"macAddresses,omitempty"`
	// ReinstallAfter asks for the server to be installed again if it was installed before this time.
	// Its system is asked to shut down, once no guest is on it; its power is cut only as TakeoverUntil
	// allows.
	// +optional
	ReinstallAfter *metav1.Time `json:"reinstallAfter,omitempty"`
	// TakeoverUntil lets regiond end, until this time, what runs on the server although regiond did
	// not start it: it is asked to shut down, and its power is cut if it does not. Without it a
	// machine that was on when it was found, or that started by itself, is left alone. It says nothing
	// about what is on the disks.
	// +optional
	TakeoverUntil *metav1.Time `json:"takeoverUntil,omitempty"`
	// Power says what becomes of an installed server that is off: always-on powers it on again, manual
	// leaves it off, since somebody may be working on it. Default "manual".
	// +optional
	Power PowerPolicy `json:"power,omitempty"`
	// Retired takes the server out of service: it is powered off and kept off, its host's rights are
	// removed, and nothing is installed on it. `regiond server retire` sets it, after the server's
	// guests are gone.
	// +optional
	Retired bool `json:"retired,omitempty"`
}

// PowerPolicy says what becomes of an installed server that is off.
//
// +kubebuilder:validation:Enum=always-on;manual
type PowerPolicy string

// Power policies.
const (
	PowerAlwaysOn PowerPolicy = "always-on"
	PowerManual   PowerPolicy = "manual"
)

// Condition types of a Server, in the order in which they become true.
const (
	// ConditionBMCReachable: the BMC answers and accepts the credentials.
	ConditionBMCReachable = "BMCReachable"
	// ConditionInspected: the inventory was reported from the machine itself.
	ConditionInspected = "Inspected"
	// ConditionInstalled: the image is on the selected disk and its identity was injected.
	ConditionInstalled = "Installed"
	// ConditionReady: the installed system's agent reports healthy.
	ConditionReady = "Ready"
	// ConditionBMCAddress is there when discovery found a BMC at another address that claims to be
	// this server's. True: the address was changed to that one. False: it was not, and the message
	// says why.
	ConditionBMCAddress = "BMCAddress"
	// ConditionMachineIdentity is False when a machine netbooted that is this server by its system
	// UUID or serial number, and is not by the other. It was not taken for it.
	ConditionMachineIdentity = "MachineIdentity"
)

// PowerState is the observed power state.
type PowerState string

// Power states.
const (
	PowerOn      PowerState = "On"
	PowerOff     PowerState = "Off"
	PowerUnknown PowerState = "Unknown"
)

// ServerPhase sums the conditions up in one word for tables. Nothing is decided by it.
type ServerPhase string

// Phases of a server.
const (
	PhaseDiscovered ServerPhase = "Discovered"
	PhaseInspecting ServerPhase = "Inspecting"
	PhaseInstalling ServerPhase = "Installing"
	PhaseBooting    ServerPhase = "Booting"
	PhaseReady      ServerPhase = "Ready"
	PhaseNotReady   ServerPhase = "NotReady"
	PhaseFailed     ServerPhase = "Failed"
	PhaseRetired    ServerPhase = "Retired"
)

// ServerStatus is what was observed of a server. It can be lost: everything in it is observed
// again.
type ServerStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	Phase ServerPhase `json:"phase,omitempty"`
	// Power state last read from the BMC.
	// +optional
	Power PowerState `json:"power,omitempty"`
	// BMC as it described itself.
	// +optional
	BMC *BMCStatus `json:"bmc,omitempty"`
	// Inventory as reported by the installer running on the machine.
	// +optional
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Netboot is what was last seen of the machine's network boot.
	// +optional
	Netboot *NetbootStatus `json:"netboot,omitempty"`
	// Installation is what the installer last reported.
	// +optional
	Installation *InstallationStatus `json:"installation,omitempty"`
	// Shutdown is the shutdown that the machine's system was asked for, until the machine is seen to
	// be off.
	// +optional
	Shutdown *ShutdownStatus `json:"shutdown,omitempty"`
	// Reinstallation that was accepted and is not finished.
	// +optional
	Reinstallation *ReinstallationStatus `json:"reinstallation,omitempty"`
}

// Consent is what allows regiond to end what runs on a server.
type Consent string

// The consents there are. A machine's power is never cut without one of them.
const (
	// ConsentOwnBoot: the machine was off, and regiond itself powered it on for the network boot that
	// it is in.
	ConsentOwnBoot Consent = "OwnNetworkBoot"
	// ConsentRetired: spec.retired.
	ConsentRetired Consent = "Retired"
	// ConsentReinstall: spec.reinstallAfter. It allows to ask for a shutdown, not to cut the power.
	ConsentReinstall Consent = "ReinstallAfter"
	// ConsentTakeover: spec.takeoverUntil.
	ConsentTakeover Consent = "TakeoverUntil"
)

// ShutdownStatus is written before the system is asked.
type ShutdownStatus struct {
	// Requested is when the system was asked.
	Requested metav1.Time `json:"requested"`
	// Consent that it was asked by.
	Consent Consent `json:"consent"`
	// BMCAddress is the address and port of the BMC that was asked. Behind another one may be another
	// machine.
	// +optional
	BMCAddress string `json:"bmcAddress,omitempty"`
}

// ReinstallationStatus is written when no guest was left on the host, before its rights are
// removed.
type ReinstallationStatus struct {
	// After is the spec.reinstallAfter that was accepted.
	After metav1.Time `json:"after"`
	// Accepted is when.
	Accepted metav1.Time `json:"accepted"`
}

// BMCStatus is what a BMC said of itself and of its chassis.
type BMCStatus struct {
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// +optional
	Product string `json:"product,omitempty"`
	// SerialNumber from the FRU product area.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// SystemUUID is the SMBIOS UUID by Get System GUID, in RFC 4122 text form.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// FirmwareVersion of the BMC.
	// +optional
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// CredentialsVersion is the resourceVersion of the Secret that was last tried; refused credentials
	// are tried again when it changes, and else at long intervals only, so that the BMC does not lock
	// the user out.
	// +optional
	CredentialsVersion string `json:"credentialsVersion,omitempty"`
	// CredentialsRefused is when the BMC refused them.
	// +optional
	CredentialsRefused *metav1.Time `json:"credentialsRefused,omitempty"`
}

// NetbootStatus is regiond's record of the network boots that it asked for, and what was seen of
// the machine's own. Only a boot that regiond asked for, of a machine that was off, allows regiond
// to give a ticket or to cut the power again.
type NetbootStatus struct {
	// Requested is when regiond last asked for a network boot. It is written before the machine is
	// powered on.
	// +optional
	Requested *metav1.Time `json:"requested,omitempty"`
	// ObservedOff is when the BMC said, before that, that the machine is off.
	// +optional
	ObservedOff *metav1.Time `json:"observedOff,omitempty"`
	// BMCAddress is the address and port of the BMC that was asked. When the server's BMC is another
	// one, this boot is over: behind that may be another machine.
	// +optional
	BMCAddress string `json:"bmcAddress,omitempty"`
	// Answered is when the machine was first given a ticket in this boot.
	// +optional
	Answered *metav1.Time `json:"answered,omitempty"`
	// AnsweredMACAddress is the interface that the ticket was given to.
	// +optional
	AnsweredMACAddress string `json:"answeredMACAddress,omitempty"`
	// Reported is when its installer first used the ticket.
	// +optional
	Reported *metav1.Time `json:"reported,omitempty"`
	// Ended is when this boot was seen to be over: the machine was off, or it started by itself. What
	// it runs from then on regiond did not start.
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// LastSeen is when a machine last asked for this server's iPXE script, in whatever boot. It proves
	// nothing.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// MACAddress of the interface that asked then.
	// +optional
	MACAddress string `json:"macAddress,omitempty"`
	// Address leased to it.
	// +optional
	Address string `json:"address,omitempty"`
	// Attempts since the last success.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// InstallStage is how far an installer got.
type InstallStage string

// Stages reported by the installer, in order.
const (
	StageInspecting InstallStage = "Inspecting"
	StageWriting    InstallStage = "Writing"
	StageInstalled  InstallStage = "Installed"
	StageFailed     InstallStage = "Failed"
)

// InstallationStatus is what an installer last reported.
type InstallationStatus struct {
	Stage InstallStage `json:"stage"`
	// Image is the version written, see images.
	// +optional
	Image string `json:"image,omitempty"`
	// Disk that is written to, by serial number or WWN.
	// +optional
	Disk string `json:"disk,omitempty"`
	// BytesWritten and BytesTotal of the image.
	// +optional
	BytesWritten int64 `json:"bytesWritten,omitempty"`
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty"`
	// Started is when this installer first reported.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// Finished is when the stage Installed was reported.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
	// Adopted is when regiond found this installation on the disk without a record of its own.
	// Finished is then what the machine's clock wrote there; a spec.reinstallAfter from before is
	// taken for done, since it may be.
	// +optional
	Adopted *metav1.Time `json:"adopted,omitempty"`
	// LastReport of the installer.
	// +optional
	LastReport *metav1.Time `json:"lastReport,omitempty"`
	// Message of the installer, an error in stage Failed.
	// +optional
	Message string `json:"message,omitempty"`
	// Refusal is the reason of the plan that was refused, in stage Failed; empty when the installer
	// itself failed.
	// +optional
	Refusal string `json:"refusal,omitempty"`
}
