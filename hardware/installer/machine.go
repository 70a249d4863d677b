package installer

import (
	"context"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/inventory"
)

// Machine is what the installer does to the machine that it runs on. Local is the real one.
type Machine interface {
	// Inventory reads it again.
	Inventory(ctx context.Context) (inventory.Inventory, error)
	// Neighbours are the switch ports heard so far, by the MAC address of the interface. It MAY be
	// called while other calls go on.
	Neighbours() map[string]inventory.LLDPNeighbour
	// Holders names what the kernel has built on a disk (see inventory.Reader.Holders).
	Holders(disk string) ([]string, error)
	// OpenDisk opens the disk of that kernel name. It MUST fail while a file system on it is mounted, or
	// md, LVM or device mapper hold it.
	OpenDisk(disk string) (*diskimage.Disk, error)
	// Mount mounts a partition and returns where. unmount MUST NOT return nil before all is on the
	// medium.
	Mount(disk string, part diskimage.Part, filesystem string) (dir string, unmount func() error, err error)
	// EFIVariables is the folder of efivarfs.
	EFIVariables() string
}
