package inventory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Reader reads the inventory from the kernel's file systems. Only files are read: nothing is
// executed and no device is written to.
//
// +kubebuilder:object:generate=false
type Reader struct {
	// Sys and Proc are the roots of sysfs and procfs.
	Sys, Proc fs.FS
	// OpenDisk opens the disk of that kernel name for reading.
	OpenDisk func(name string) (DiskReader, error)
	// stuck are the disks that did not answer in time and still keep a read waiting: they are not asked once more. nil
	// remembers none.
	stuck *sync.Map
	// PermanentMAC asks the driver of an interface for the address in its ROM (IFLA_PERM_ADDRESS).
	// When it is nil or does not know, the present address is taken.
	PermanentMAC func(name string) (net.HardwareAddr, error)
}

// DiskReader is an opened disk.
type DiskReader interface {
	io.ReaderAt
	io.Closer
}

// NewReader reads the machine that it runs on.
func NewReader() Reader {
	return Reader{
		Sys:   os.DirFS("/sys"),
		Proc:  os.DirFS("/proc"),
		stuck: new(sync.Map),
		OpenDisk: func(name string) (DiskReader, error) {
			return os.Open("/dev/" + name)
		},
	}
}

// Read returns what could be read, together with an error that names what could not.
func (r Reader) Read() (Inventory, error) {
	disks, diskErr := r.Disks()
	nics, nicErr := r.NICs()
	memory, memoryErr := r.memoryBytes()
	return Inventory{
		System:      r.System(),
		CPU:         r.cpu(),
		MemoryBytes: memory,
		Firmware:    r.firmware(),
		Disks:       disks,
		NICs:        nics,
	}, errors.Join(diskErr, nicErr, memoryErr)
}

// text reads a file of sysfs with one value. What is absent or unreadable is empty: drivers leave
// out attributes, and some (speed of a link that is down) can be opened but not read.
func (r Reader) text(path string) string {
	b, err := fs.ReadFile(r.Sys, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(b), "\x00\n"))
}

// number reads a file of sysfs with a decimal number; anything else is 0.
func (r Reader) number(path string) int64 {
	n, err := strconv.ParseInt(r.text(path), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// exists says whether sysfs has such a path.
func (r Reader) exists(path string) bool {
	_, err := fs.Stat(r.Sys, path)
	return err == nil
}

// base is the last element of the target of a symbolic link in sysfs, e.g. the driver's name.
func (r Reader) base(path string) string {
	target, err := fs.ReadLink(r.Sys, path)
	if err != nil {
		return ""
	}
	return target[strings.LastIndexByte(target, '/')+1:]
}

// names lists a folder of sysfs in alphabetical order.
func (r Reader) names(path string) ([]string, error) {
	entries, err := fs.ReadDir(r.Sys, path)
	if err != nil {
		return nil, fmt.Errorf("inventory: list /sys/%s: %w", path, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}
