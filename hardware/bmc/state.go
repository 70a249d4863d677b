package bmc

// PowerAction is what can be done to the power of a server.
type PowerAction string

// Power actions.
const (
	// On switches on; a server that is on is left alone.
	On PowerAction = "On"
	// Off cuts the power at once.
	Off PowerAction = "Off"
	// Cycle is Off, observed, and then On, observed. It also starts a server that is off.
	Cycle PowerAction = "Cycle"
	// SoftOff asks the operating system to shut down, and cuts the power when it does not in time.
	SoftOff PowerAction = "SoftOff"
)

// Info is what a BMC says of itself and of its chassis.
type Info struct {
	// Manufacturer and Product of the server: the FRU product area, else its board area.
	Manufacturer string
	Product      string
	// SerialNumber from the FRU product area, which is what SMBIOS calls the system's.
	SerialNumber string
	// AssetTag from the FRU product area.
	AssetTag string
	// BoardSerialNumber and ChassisSerialNumber from their FRU areas.
	BoardSerialNumber   string
	ChassisSerialNumber string
	// SystemUUID in RFC 4122 text form, empty when the BMC does not tell. Package fingerprint compares it.
	SystemUUID string
	// FirmwareVersion of the BMC, e.g. "1.45".
	FirmwareVersion string
	// ManufacturerID is the IANA enterprise number of the BMC's maker, ProductID is the maker's own.
	ManufacturerID uint32
	ProductID      uint16
	// CipherSuite in use, the ID of IPMI v2.0 table 22-20.
	CipherSuite int
	// Quirks are deviations from the specification that were seen, worked around, and are worth telling.
	Quirks []string
}
