// Package enroll is the conversation between regiond and a machine that is being installed or
// joins: its messages (JSON over HTTPS with the region's CA pinned) and its paths. It imports
// no Kubernetes libraries, so that the installer stays small.
//
// A machine that netboots for a job is given a Ticket. With the ticket's token the installer
// reports its inventory and is told what to do; the system that it installs exchanges the join
// token in its identity for a client certificate, once.
package enroll

import (
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/hex"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
)

// Port of regiond's API on the provisioning address.
const Port = 7443

// Paths. All take POST with a JSON body of at most MaxBody bytes.
const (
	PathInventory = "/v1/inventory" // Bearer ticket token; InventoryReport -> Instruction
	PathProgress  = "/v1/progress"  // Bearer ticket token; Progress -> 204
	PathJoin      = "/v1/join"      // Bearer join token; JoinRequest -> JoinResponse
	PathRenew     = "/v1/renew"     // client certificate; JoinRequest -> JoinResponse
	PathConfirm   = "/v1/confirm"   // client certificate; ConfirmRequest -> 204
	PathReadmit   = "/v1/readmit"   // JoinRequest, signed by the key of the expired certificate -> JoinResponse
)

// MaxBody bounds every request body in bytes.
const MaxBody = 1 << 20

// TicketFile is where the ticket is found in the installer's root file system.
const TicketFile = "/etc/regiond/ticket.json"

// Ticket is served with the initramfs to one machine for one job, as a second cpio archive, so
// that nothing of it shows on the kernel's command line.
type Ticket struct {
	// URL of regiond's API, https://address:7443.
	URL string `json:"url"`
	// CA certificates (PEM) that sign it.
	CA string `json:"ca"`
	// Token to present, one job only.
	Token string `json:"token"`
	// MACAddress of the interface that netbooted.
	MACAddress string `json:"macAddress"`
	// Time at regiond (RFC 3339): machines with an empty CMOS battery set their clock by it
	// before they check certificates.
	Time string `json:"time"`
}

// InventoryReport is the installer's first word.
type InventoryReport struct {
	Inventory inventory.Inventory `json:"inventory"`
	// Version of the installer.
	Version string `json:"version"`
}

// Instruction is the answer: exactly one of its fields is set.
type Instruction struct {
	// Wait: ask again after this many seconds; Message says what is awaited.
	WaitSeconds int    `json:"waitSeconds,omitempty"`
	Message     string `json:"message,omitempty"`
	// Install the image.
	Install *Install `json:"install,omitempty"`
	// Boot the local disk: it already holds what is desired.
	BootDisk bool `json:"bootDisk,omitempty"`
	// PowerOff: no job, or the job was refused.
	PowerOff bool `json:"powerOff,omitempty"`
}

// Install says what to write where.
type Install struct {
	// Disk to write to: all given fields must match the same single disk again, or nothing is written.
	Disk DiskIdentity `json:"disk"`
	// Overwrite says that the operator allowed what is on the disk to be lost. Without it, a disk that is neither blank
	// nor an installation of this server is not written to.
	Overwrite bool `json:"overwrite,omitempty"`
	// Manifest of the image; its chunks are fetched from ImageURL + "/chunks/" + sha256.
	Manifest diskimage.Manifest `json:"manifest"`
	ImageURL string             `json:"imageURL"`
	Identity identity.Identity  `json:"identity"`
}

// DiskIdentity names a disk by what does not change.
type DiskIdentity struct {
	SerialNumber string `json:"serialNumber,omitempty"`
	WWN          string `json:"wwn,omitempty"`
	Bytes        int64  `json:"bytes"`
}

// Progress of an installation.
type Progress struct {
	// Stage as in region.InstallStage: Writing, Installed, Failed.
	Stage        string `json:"stage"`
	BytesWritten int64  `json:"bytesWritten"`
	BytesTotal   int64  `json:"bytesTotal"`
	// Refetched chunks, whose checksum was wrong.
	Refetched int    `json:"refetched,omitempty"`
	Message   string `json:"message,omitempty"`
	// Neighbours are the switch ports heard by LLDP so far, by the MAC address of the interface. At the end of an
	// installation they were listened for longer than before the inventory.
	Neighbours map[string]inventory.LLDPNeighbour `json:"neighbours,omitempty"`
}

// JoinRequest asks for a client certificate.
type JoinRequest struct {
	// CSR is a PKCS #10 request in PEM. Its subject must be that of the host, see Subject: Kubernetes
	// signs the request as it is, so another subject is refused.
	CSR string `json:"csr"`
	// SystemUUID from SMBIOS, which must be that of the server that the token was issued for.
	SystemUUID string `json:"systemUUID"`
}

// ConfirmRequest says that a renewed certificate, by which it is sent, is in use: the one before has no rights any more.
type ConfirmRequest struct {
	// SystemUUID as in JoinRequest.
	SystemUUID string `json:"systemUUID"`
}

// JoinResponse carries the certificate.
type JoinResponse struct {
	// Certificate chain in PEM.
	Certificate string `json:"certificate"`
}

// Subject of a host's client certificate: the API server takes the common name for the user and the organizations for the
// groups. key is the KeyID of the certificate's key; agents of earlier versions named none.
func Subject(hostname, key string) pkix.Name {
	groups := []string{Group}
	if key != "" {
		groups = append(groups, KeyGroup(key))
	}
	return pkix.Name{CommonName: UserPrefix + hostname, Organization: groups}
}

// UserPrefix and Group of the agents of all hosts.
const (
	UserPrefix = "regiond:host:"
	Group      = "regiond:hosts"
)

// KeyID names a public key by the SHA-256 of its SubjectPublicKeyInfo (RFC 5280 section 4.1) in hex.
func KeyID(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:])
}

// KeyGroup is the group of who holds a key. The API server gives rights to users and groups, and compares no keys: by this group
// it gives a host's rights to one key. 128 bits withstand a search for a second key; an organization has at most 64 characters
// (RFC 5280 appendix A.1).
func KeyGroup(id string) string { return "regiond:key:" + id[:32] }

// Reasons of refusals.
const (
	ReasonMalformed     = "Malformed"     // 400: the request is not what this path takes
	ReasonTokenUnknown  = "TokenUnknown"  // 401: no token, or one that was never given or was replaced
	ReasonTokenUsed     = "TokenUsed"     // 403: the join token was used with another key, or its certificate is in use
	ReasonWrongServer   = "WrongServer"   // 403: the token or certificate belongs to another machine
	ReasonNotReadmitted = "NotReadmitted" // 403: the certificate expired, and no operator has readmitted the host
	ReasonNoJob         = "NoJob"         // 409: the report fits no job
	ReasonTooLarge      = "TooLarge"      // 413: more than MaxBody
	ReasonTooMany       = "TooMany"       // 429: too many requests from this address; wait
	ReasonUnavailable   = "Unavailable"   // 503: regiond can't answer now; try again
)

// Error is the body of every answer other than 2xx that regiond gives.
type Error struct {
	// Status is the HTTP status code of the answer.
	Status int `json:"-"`
	// Reason is one word for programs, e.g. TokenUsed, TokenUnknown, WrongServer. Empty if it was not regiond that answered.
	Reason string `json:"reason"`
	// Message for people.
	Message string `json:"message"`
}
