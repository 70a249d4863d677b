package region

// Consequence of a changed declaration for a machine, or for addresses that machines are searched
// at.
type Consequence struct {
	// Server that it concerns, if it is one.
	Server string `json:"server,omitempty"`
	// Overwritten is the disk whose data is lost.
	Overwritten *OverwrittenDisk `json:"overwritten,omitempty"`
	// Consequence in words.
	Consequence string `json:"consequence"`
}

// OverwrittenDisk is a disk that holds data and will be installed on.
type OverwrittenDisk struct {
	// Name of the disk in the installer, e.g. sda.
	Name         string `json:"name"`
	SerialNumber string `json:"serialNumber,omitempty"`
	WWN          string `json:"wwn,omitempty"`
	// Holds is what was found on it.
	Holds string `json:"holds"`
}
