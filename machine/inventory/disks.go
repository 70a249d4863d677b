package inventory

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// sectorBytes is the unit of /sys/block/*/size, whatever the disk's own sectors are.
const sectorBytes = 512

// notDisks are block devices that are made of something else or cannot be installed to.
var notDisks = []string{"loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd", "drbd", "rbd", "zd", "pmem", "mtdblock"}

// Disks lists the local disks with what is on them. All are read at the same time, each within its own time: a disk
// that does not answer is reported as sick and keeps nobody waiting for ever.
func (r Reader) Disks() ([]Disk, error) {
	disks, err := r.ListDisks()
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	for i := range disks {
		group.Go(func() { r.examineWithin(&disks[i], readWithin) })
	}
	group.Wait()
	markPaths(disks)
	return disks, nil
}

// ListDisks lists the local disks without reading from them. Left out are devices without media, write-protected ones,
// and what is attached by USB: those are the virtual media of the BMC and somebody's memory stick.
func (r Reader) ListDisks() ([]Disk, error) {
	names, err := r.names("block")
	if err != nil {
		return nil, err
	}
	var disks []Disk
	for _, name := range names {
		if slices.ContainsFunc(notDisks, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		folder := path.Join("block", name)
		size := r.number(path.Join(folder, "size")) * sectorBytes
		// NVMe shows each path of a multipath namespace as a hidden device beside the whole.
		if size == 0 || r.text(path.Join(folder, "hidden")) == "1" || r.text(path.Join(folder, "ro")) == "1" || r.onUSB(folder) {
			continue
		}
		disks = append(disks, Disk{
			Name: name, Bytes: size, Type: r.diskType(name),
			SerialNumber: r.diskSerial(folder), WWN: r.diskWWN(folder), Model: r.diskModel(folder),
		})
	}
	return disks, nil
}

// onUSB follows the device's place in sysfs, e.g.
// ../devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host7/target7:0:0/7:0:0:0/block/sdb.
func (r Reader) onUSB(folder string) bool {
	target, err := fs.ReadLink(r.Sys, folder)
	return err == nil && strings.Contains(target, "/usb")
}

func (r Reader) diskType(name string) DiskType {
	switch {
	case strings.HasPrefix(name, "nvme"):
		return DiskNVMe
	case r.text(path.Join("block", name, "queue/rotational")) == "1":
		return DiskHDD
	default:
		return DiskSSD
	}
}

// diskSerial: virtio has it at the disk, NVMe and MMC at the controller, SCSI in the Unit Serial
// Number page (SPC-5 section 7.7.19), which libata makes up from ATA's IDENTIFY DEVICE.
func (r Reader) diskSerial(folder string) string {
	for _, file := range []string{"serial", "device/serial"} {
		if s := r.text(path.Join(folder, file)); s != "" {
			return s
		}
	}
	page, err := fs.ReadFile(r.Sys, path.Join(folder, "device/vpd_pg80"))
	if err != nil || len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	length := min(int(binary.BigEndian.Uint16(page[2:])), len(page)-4)
	return strings.Trim(string(page[4:4+length]), " \x00")
}

// diskWWN takes only names that are unique in the world (NAA, EUI-64, UUID). The kernel's t10. and
// nvme. names are made of vendor, model and serial number and say nothing new.
func (r Reader) diskWWN(folder string) string {
	for _, file := range []string{"wwid", "device/wwid"} {
		id := r.text(path.Join(folder, file))
		for _, prefix := range []string{"naa.", "eui.", "uuid."} {
			if strings.HasPrefix(id, prefix) {
				return id
			}
		}
	}
	return ""
}

func (r Reader) diskModel(folder string) string {
	vendor, model := r.text(path.Join(folder, "device/vendor")), r.text(path.Join(folder, "device/model"))
	// ATA disks all have the vendor "ATA"; virtio has a PCI number (0x1af4) there.
	if vendor == "" || vendor == "ATA" || strings.HasPrefix(vendor, "0x") {
		return model
	}
	return strings.TrimSpace(vendor + " " + model)
}

// Holders names what the kernel has built on a disk or on one of its partitions: md arrays, device
// mapper targets (LVM, multipath, crypt).
func (r Reader) Holders(name string) ([]string, error) {
	folder := path.Join("block", name)
	entries, err := r.names(folder)
	if err != nil {
		return nil, err
	}
	folders := []string{folder}
	for _, e := range entries {
		if r.exists(path.Join(folder, e, "partition")) {
			folders = append(folders, path.Join(folder, e))
		}
	}
	var holders []string
	for _, f := range folders {
		found, err := r.names(path.Join(f, "holders"))
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			holder := h
			if dm := r.text(path.Join("block", h, "dm/name")); dm != "" {
				holder = fmt.Sprintf("%s (%s)", h, dm)
			}
			holders = append(holders, holder)
		}
	}
	return holders, nil
}

// markPaths says so in the content of disks that are one disk seen on several paths: the same WWN
// and serial number. Nobody may choose one of them without knowing.
func markPaths(disks []Disk) {
	for i := range disks {
		var others []string
		for j := range disks {
			if i != j && disks[i].WWN != "" && disks[i].WWN == disks[j].WWN && disks[i].SerialNumber == disks[j].SerialNumber {
				others = append(others, disks[j].Name)
			}
		}
		if len(others) > 0 {
			disks[i].Content = strings.TrimPrefix(disks[i].Content+", multipath (also "+strings.Join(others, ", ")+")", ", ")
		}
	}
}

// String names a disk for people, with what identifies it.
func (d Disk) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, %d bytes", d.Name, d.Type, d.Bytes)
	for _, f := range []struct{ name, value string }{{"model", d.Model}, {"serial", d.SerialNumber}, {"wwn", d.WWN}, {"holds", d.Content}, {"sick:", d.Problem}} {
		if f.value != "" {
			fmt.Fprintf(&b, ", %s %s", f.name, f.value)
		}
	}
	b.WriteByte(')')
	return b.String()
}
