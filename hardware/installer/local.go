package installer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"regiond.dev/regiond/hardware/inventory"
	"regiond.dev/regiond/hardware/inventory/lldp"
	"regiond.dev/regiond/images/diskimage"
)

// efivarfs is where regiond-init mounts it.
const efivarfs = "/sys/firmware/efi/efivars"

// disksWithin is how long disks are waited for.
const disksWithin = 20 * time.Second

// Local is the machine that this program runs on.
type Local struct {
	reader inventory.Reader
	// bootMAC is the interface that netbooted.
	bootMAC string
	// lldpWait is how long neighbours are listened for.
	lldpWait time.Duration

	// settled says that the disks were waited for.
	settled bool

	mu sync.Mutex
	// neighbours heard, by interface name. An interface that was listened on has an entry.
	neighbours map[string]*inventory.LLDPNeighbour
}

// NewLocal returns this machine. bootMAC is the address of the interface that netbooted; lldpWait bounds
// the listening for LLDP, which is done once for each interface with a link.
func NewLocal(bootMAC string, lldpWait time.Duration) *Local {
	reader := inventory.NewReader()
	reader.PermanentMAC = func(name string) (net.HardwareAddr, error) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return nil, err
		}
		return link.Attrs().PermHWAddr, nil
	}
	return &Local{reader: reader, bootMAC: bootMAC, lldpWait: lldpWait, neighbours: map[string]*inventory.LLDPNeighbour{}}
}

// Inventory listens for LLDP on links that came up since the last time, and then reads the machine.
func (l *Local) Inventory(ctx context.Context) (inventory.Inventory, error) {
	before, err := l.diskNames()
	if err != nil {
		return inventory.Inventory{}, err
	}
	nics, nicErr := l.reader.NICs()
	listenErr := l.listen(ctx, nics)
	if err := l.settleDisks(ctx, before); err != nil {
		return inventory.Inventory{}, err
	}
	inv, err := l.reader.Read()
	inv.MarkBoot(l.bootMAC)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range inv.NICs {
		if inv.NICs[i].LinkUp {
			inv.NICs[i].LLDP = l.neighbours[inv.NICs[i].Name]
		}
	}
	return inv, errors.Join(nicErr, listenErr, err)
}

// settleDisks waits, once, until there are disks and a second look finds the same ones: controllers scan their buses
// for a while after their driver was loaded, and regiond must not choose from half of the disks.
func (l *Local) settleDisks(ctx context.Context, before []string) error {
	if l.settled {
		return nil
	}
	l.settled = true
	give := time.Now().Add(disksWithin)
	for {
		now, err := l.diskNames()
		if err != nil {
			return err
		}
		if len(now) > 0 && slices.Equal(before, now) || time.Now().After(give) {
			return nil
		}
		before = now
		if err := (SystemClock{}).Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (l *Local) diskNames() ([]string, error) {
	disks, err := l.reader.Disks()
	var names []string
	for _, d := range disks {
		names = append(names, d.Name)
	}
	return names, err
}

// listen hears all interfaces at the same time.
func (l *Local) listen(ctx context.Context, nics []inventory.NIC) error {
	ctx, cancel := context.WithTimeout(ctx, l.lldpWait)
	defer cancel()
	errs := make([]error, len(nics))
	var group sync.WaitGroup
	for i, nic := range nics {
		if !nic.LinkUp || l.listened(nic.Name) {
			continue
		}
		group.Go(func() {
			heard, err := lldp.Listen(ctx, nic.Name)
			errs[i] = err
			l.mu.Lock()
			defer l.mu.Unlock()
			l.neighbours[nic.Name] = heard
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (l *Local) listened(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, done := l.neighbours[name]
	return done
}

// Holders is of Machine.
func (l *Local) Holders(disk string) ([]string, error) { return l.reader.Holders(disk) }

// OpenDisk is of Machine.
func (l *Local) OpenDisk(disk string) (*Disk, error) { return OpenDisk("/dev/" + disk) }

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
