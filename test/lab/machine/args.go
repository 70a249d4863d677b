package machine

import (
	"fmt"
	"path/filepath"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/test/lab/bmc"
)

// Config of a virtual server.
type Config struct {
	// Name of the machine, a DNS label.
	Name string
	// Dir holds its disks, its firmware variables, its sockets and its console log.
	Dir string
	// UUID by which SMBIOS and the BMC name the machine, RFC 4122 text form.
	UUID string
	// SerialNumber in SMBIOS.
	SerialNumber string
	Firmware     inventory.FirmwareMode
	CPUs         int
	// Memory in MiB.
	Memory int
	Disks  []Disk
	// MACAddress of the interface that netboots, and the tap device it is connected to.
	MACAddress string
	Tap        string
	// Data is a second interface, for guests' traffic; without a tap device there is none.
	Data NIC
	// KVM uses the processor's virtualisation instead of emulation.
	KVM bool
	// OVMF is the folder of Debian's package ovmf.
	OVMF string
}

// NIC is an interface of a virtual server.
type NIC struct{ MACAddress, Tap string }

// Disk of a virtual server: a sparse raw file.
type Disk struct {
	// SerialNumber that the guest sees, at most 20 bytes (virtio-blk's limit).
	SerialNumber string
	// Bytes of the disk.
	Bytes int64
}

// Manufacturer and Product in SMBIOS and in the BMC's FRU.
const (
	Manufacturer = "regiond"
	Product      = "Virtual Server"
)

// Boot indexes (QEMU -device bootindex): the first is tried first.
const (
	first  = 1
	second = 2
)

// bootIndexes of the network interface and of the first disk.
func bootIndexes(b bmc.Boot) (nic, disk int) {
	if b.Device == bmc.BootPXE {
		return first, second
	}
	return second, first
}

func (c Config) diskFile(i int) string    { return filepath.Join(c.Dir, fmt.Sprintf("disk%d.raw", i)) }
func (c Config) varsFile() string         { return filepath.Join(c.Dir, "efivars.fd") }
func (c Config) qmpSocket() string        { return filepath.Join(c.Dir, "qmp.sock") }
func (c Config) consoleSocket() string    { return filepath.Join(c.Dir, "serial.sock") }
func (c Config) kcsSocket() string        { return filepath.Join(c.Dir, "kcs.sock") }
func (c Config) log(name string) string   { return filepath.Join(c.Dir, name) }
func (c Config) ovmfFile(n string) string { return filepath.Join(c.OVMF, n) }

// emulatedCPU has all that QEMU can emulate, but not CMPXCHG16B: after that instruction QEMU 7.2 keeps
// garbage where it computes EFLAGS from, a timer interrupt then stores it, and the kernel, which
// allocates memory by this instruction, panics with a double fault when it returns. Seen as hosts that
// restart by themselves while they start services. A fifth level of page tables only costs time.
const emulatedCPU = "max,-cx16,-la57"

// args is QEMU's command line for a power-on with the given boot device first.
func (c Config) args(b bmc.Boot) []string {
	accel, cpu := "tcg,thread=multi", emulatedCPU
	if c.KVM {
		accel, cpu = "kvm", "host"
	}
	nic, disk := bootIndexes(b)
	args := []string{
		"-name", c.Name,
		"-machine", "q35",
		"-accel", accel,
		"-cpu", cpu,
		"-smp", fmt.Sprint(c.CPUs),
		"-m", fmt.Sprintf("%dM", c.Memory),
		"-nodefaults", "-display", "none", "-no-user-config",
		// -S: nothing runs before the next boot's order is set, see Machine.PowerOn.
		"-S",
		"-qmp", "unix:" + c.qmpSocket() + ",server=on,wait=off",
		"-smbios", fmt.Sprintf("type=1,manufacturer=%s,product=%s,serial=%s,uuid=%s", Manufacturer, Product, c.SerialNumber, c.UUID),
		// QEMU writes the log itself, so that no byte is lost while nobody reads the socket.
		"-chardev", "socket,id=serial0,path=" + c.consoleSocket() + ",server=on,wait=off,logfile=" + c.log("console.log") + ",logappend=on",
		"-serial", "chardev:serial0",
		"-chardev", "socket,id=kcs0,path=" + c.kcsSocket() + ",reconnect=1",
		"-device", "ipmi-bmc-extern,id=bmc0,chardev=kcs0",
		"-device", "isa-ipmi-kcs,bmc=bmc0",
		// Without a random source the kernel's CSPRNG starves under emulation and TLS waits.
		"-device", "virtio-rng-pci",
		"-netdev", "tap,id=net0,ifname=" + c.Tap + ",script=no,downscript=no",
	}
	dev := fmt.Sprintf("virtio-net-pci,id=nic0,netdev=net0,mac=%s,bootindex=%d", c.MACAddress, nic)
	if c.Firmware == inventory.FirmwareUEFI {
		args = append(args,
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+c.ovmfFile("OVMF_CODE_4M.fd"),
			"-drive", "if=pflash,format=raw,unit=1,file="+c.varsFile())
		// An empty romfile makes OVMF use its own PXE client, as a physical machine's firmware does.
		dev += ",romfile="
	}
	args = append(args, "-device", dev)
	if c.Data.Tap != "" {
		// Open vSwitch's userspace datapath takes packets as they are: what is sent must have its checksum, not the
		// promise of one, and must not be bigger than a packet (virtio 1.2, 5.1.3: csum, guest_csum and TSO features).
		args = append(args, "-netdev", "tap,id=net1,ifname="+c.Data.Tap+",script=no,downscript=no",
			"-device", fmt.Sprintf("virtio-net-pci,id=nic1,netdev=net1,mac=%s,romfile=,csum=off,guest_csum=off,gso=off,"+
				"guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off", c.Data.MACAddress))
	}
	for i, d := range c.Disks {
		id := fmt.Sprintf("disk%d", i)
		args = append(args, "-drive", fmt.Sprintf("if=none,id=%s-file,format=raw,file=%s,cache=unsafe,discard=unmap", id, c.diskFile(i)))
		dev := fmt.Sprintf("virtio-blk-pci,id=%s,drive=%s-file,serial=%s", id, id, d.SerialNumber)
		if i == 0 {
			dev += fmt.Sprintf(",bootindex=%d", disk)
		}
		args = append(args, "-device", dev)
	}
	return args
}
