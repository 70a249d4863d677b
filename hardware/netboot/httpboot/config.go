package httpboot

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"regiond.dev/regiond/hardware/sightings"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

// Port that iPXE's URLs mean.
const Port = 80

// Client is a machine whose iPXE asks what to do.
type Client struct {
	// MAC of the interface that netboots. It holds the lease of Address.
	MAC net.HardwareAddr
	// UUID and Serial are what its SMBIOS says, unproven and maybe empty.
	UUID, Serial string
	Address      netip.Addr
	Firmware     inventory.FirmwareMode
}

// Job is what a machine is to run: the installer, with a ticket and kernel arguments.
type Job struct {
	Ticket          enroll.Ticket
	KernelArguments []string
}

// Decider says what a netbooting machine is to do.
type Decider interface {
	// Netboot returns the machine's job, or nil when it is to boot its disk. An error makes the
	// machine ask again. It MAY be called many times for one job, and at the same time.
	Netboot(ctx context.Context, c Client) (*Job, error)
}

// Leases says which station holds an address.
type Leases interface {
	// Holder MUST NOT wait for the station: it answers from what it has. It MAY be called at the same
	// time.
	Holder(netip.Addr) (net.HardwareAddr, bool)
}

// Config of the server.
type Config struct {
	// Address of the server, for the URLs in scripts.
	Address netip.Addr
	Decider Decider
	Leases  Leases
	// Kernel and Initramfs return the paths of the files to serve now.
	Kernel, Initramfs func() (string, error)
	// Loader is the path of the loader for UEFI HTTP boot.
	Loader string
	// ImageDir is the images folder: chunks are served from node/<version>/chunks below it.
	ImageDir string
	// Sightings note the requests, but for those of an image's chunks; nil for none.
	Sightings *sightings.Sightings
	Metrics   prometheus.Registerer
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
}
