package diskimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// zeroStep bounds one request to the kernel, which cannot be interrupted.
const zeroStep = 1 << 30

// discardBudget is how long discarding a whole disk may take. It is only a courtesy to the flash.
const discardBudget = 20 * time.Second

// Disk is a disk opened for writing, or in tests a file in its place.
type Disk struct {
	file *os.File
	size int64
	// device is false for a regular file, where the same things are asked for by other calls.
	device bool
}

// OpenDisk opens a disk for this process alone: the kernel refuses when a file system on it is
// mounted or md, LVM or device mapper hold it (open(2), O_EXCL on block devices).
func OpenDisk(path string) (*Disk, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	d := &Disk{device: info.Mode()&fs.ModeDevice != 0}
	flags := os.O_RDWR
	if d.device {
		flags |= os.O_EXCL
	}
	d.file, err = os.OpenFile(path, flags, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("open disk %s: something uses it (a mounted file system, md, LVM or device mapper): %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	if err := d.measure(); err != nil {
		return nil, errors.Join(fmt.Errorf("open disk %s: %w", path, err), d.file.Close())
	}
	return d, nil
}

func (d *Disk) measure() error {
	var err error
	if d.size, err = d.file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if d.device {
		sector, err := unix.IoctlGetInt(int(d.file.Fd()), unix.BLKSSZGET)
		if err != nil {
			return fmt.Errorf("ask for its sector size: %w", err)
		}
		if sector != SectorSize {
			return fmt.Errorf("it has sectors of %d bytes; images are made for %d: reformat it (nvme format, sg_format) or choose another disk",
				sector, SectorSize)
		}
	}
	return nil
}

// Bytes of the disk.
func (d *Disk) Bytes() int64 { return d.size }

// Close closes the disk without syncing it.
func (d *Disk) Close() error { return d.file.Close() }

// Sync waits until all that was written is on the medium.
func (d *Disk) Sync() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("sync disk %s: %w", d.file.Name(), err)
	}
	return nil
}

// WriteAt writes and asks the kernel to begin with the transfer to the medium, so that progress means
// something and the last sync is short.
func (d *Disk) WriteAt(b []byte, offset int64) (int, error) {
	n, err := d.file.WriteAt(b, offset)
	if err != nil {
		return n, fmt.Errorf("write to disk: %w", err)
	}
	// Only advice: errors of the medium are returned by Sync.
	_ = unix.SyncFileRange(int(d.file.Fd()), offset, int64(len(b)), unix.SYNC_FILE_RANGE_WRITE)
	return n, nil
}

// Zero makes a range read as zeros; the disk is told to do it by itself where it can.
func (d *Disk) Zero(ctx context.Context, offset, length int64) error {
	for length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(length, zeroStep)
		var err error
		if d.device {
			err = d.blockRange(unix.BLKZEROOUT, offset, n)
		} else {
			err = unix.Fallocate(int(d.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n)
		}
		if err != nil {
			return fmt.Errorf("write %d zeros to disk %s at %d: %w", n, d.file.Name(), offset, err)
		}
		offset, length = offset+n, length-n
	}
	return nil
}

// Discard tells flash that a range is free, which keeps it fast. Disks that cannot do it, or that are slow
// at it, are left as they are: nothing relies on it.
func (d *Disk) Discard(ctx context.Context, offset, length int64) {
	if !d.device {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, discardBudget)
	defer cancel()
	const step = 64 << 30
	for length > 0 && ctx.Err() == nil {
		n := min(length, step)
		if d.blockRange(unix.BLKDISCARD, offset, n) != nil {
			return
		}
		offset, length = offset+n, length-n
	}
}

// blockRange is an ioctl of linux/fs.h on uint64_t[2]{offset, length}.
func (d *Disk) blockRange(request uintptr, offset, length int64) error {
	span := [2]uint64{uint64(offset), uint64(length)}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, d.file.Fd(), request, uintptr(unsafe.Pointer(&span)))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// RereadPartitions makes the kernel forget the partitions that it knew and read the table again.
func (d *Disk) RereadPartitions() error {
	if !d.device {
		return nil
	}
	if err := unix.IoctlSetInt(int(d.file.Fd()), unix.BLKRRPART, 0); err != nil {
		return fmt.Errorf("make the kernel read the partition table of %s again: %w", d.file.Name(), err)
	}
	return nil
}

// WriteTable writes the partition tables and the boot code, and makes the disk bootable by that.
func (d *Disk) WriteTable(parts []Part, bootCode []byte) (map[string]string, error) {
	return WriteTable(d.file, d.size, parts, bootCode)
}
