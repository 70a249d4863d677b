package installer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/machine/inventory/lldp"
)

// efivarfs is where regiond-init mounts it.
const efivarfs = "/sys/firmware/efi/efivars"

// Local is the machine that this program runs on.
type Local struct {
	reader inventory.Reader
	// bootMAC is the interface that netbooted.
	bootMAC string
	// background bounds what goes on between two calls.
	background context.Context
	// settled says that the disks were waited for.
	settled    bool
	neighbours lldp.Neighbours
}

// NewLocal returns this machine. bootMAC is the address of the interface that netbooted. Until the context ends,
// neighbours are listened for on all interfaces that an inventory found with a link.
func NewLocal(ctx context.Context, bootMAC string) *Local {
	reader := inventory.NewReader()
	reader.PermanentMAC = func(name string) (net.HardwareAddr, error) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return nil, err
		}
		return link.Attrs().PermHWAddr, nil
	}
	return &Local{reader: reader, bootMAC: bootMAC, background: ctx}
}

// Inventory waits, the first time, until the disks are there, and reads the machine. The neighbours in it are those heard so
// far: the machine is not kept waiting for stations that announce themselves every 30 s.
func (l *Local) Inventory(ctx context.Context) (inventory.Inventory, error) {
	nics, nicErr := l.reader.NICs()
	agentErr := lldp.DisableFirmwareAgents(nics, l.bootMAC)
	for _, nic := range nics {
		if nic.LinkUp {
			l.neighbours.Listen(l.background, nic.Name)
		}
	}
	settleErr := l.settleDisks(ctx)
	if ctx.Err() != nil {
		return inventory.Inventory{}, context.Cause(ctx)
	}
	inv, err := l.reader.Read()
	inv.MarkBoot(l.bootMAC)
	for i := range inv.NICs {
		if inv.NICs[i].LinkUp {
			inv.NICs[i].LLDP = l.neighbours.Of(inv.NICs[i].Name)
		}
	}
	return inv, errors.Join(nicErr, agentErr, settleErr, err)
}

// settleDisks waits once for all disks.
func (l *Local) settleDisks(ctx context.Context) error {
	if l.settled {
		return nil
	}
	l.settled = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := watchStorage(ctx)
	if err != nil {
		deaf := make(chan struct{})
		close(deaf)
		events = deaf
	}
	return errors.Join(err, settle(ctx, events, func() bool {
		disks, err := l.reader.ListDisks()
		return err == nil && len(disks) > 0
	}))
}

// Neighbours is of Machine.
func (l *Local) Neighbours() map[string]inventory.LLDPNeighbour {
	// What can't be listed has no neighbours; the inventory has said so.
	nics, _ := l.reader.NICs()
	found := map[string]inventory.LLDPNeighbour{}
	for _, nic := range nics {
		if neighbour := l.neighbours.Of(nic.Name); neighbour != nil {
			found[nic.MACAddress] = *neighbour
		}
	}
	return found
}

// Holders is of Machine.
func (l *Local) Holders(disk string) ([]string, error) { return l.reader.Holders(disk) }

// OpenDisk is of Machine.
func (l *Local) OpenDisk(disk string) (*diskimage.Disk, error) {
	return diskimage.OpenDisk("/dev/" + disk)
}

// EFIVariables is of Machine.
func (l *Local) EFIVariables() string { return efivarfs }

// Mount is of Machine.
func (l *Local) Mount(disk string, part diskimage.Part, filesystem string) (string, func() error, error) {
	device := "/dev/" + partitionName(disk, part.Index)
	dir, err := os.MkdirTemp("", part.Label+"-")
	if err != nil {
		return "", nil, fmt.Errorf("mount %s: %w", device, err)
	}
	if err := unix.Mount(device, dir, filesystem, unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_NOSUID, ""); err != nil {
		return "", nil, errors.Join(fmt.Errorf("mount %s (%s) as %s: %w", device, part.Label, filesystem, err), os.Remove(dir))
	}
	return dir, func() error {
		// Unmounting writes everything back and syncs the device.
		if err := unix.Unmount(dir, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", device, err)
		}
		return os.Remove(dir)
	}, nil
}

// partitionName is the kernel's name of a partition: a "p" keeps digits apart (nvme0n1p2, sda2).
func partitionName(disk string, index int) string {
	if strings.ContainsAny(disk[len(disk)-1:], "0123456789") {
		disk += "p"
	}
	return disk + strconv.Itoa(index)
}
