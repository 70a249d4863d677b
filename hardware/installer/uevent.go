package installer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group in which the kernel itself announces devices; udev has another one.
const kernelGroup = 1

// ueventBuffer holds one message: the kernel's are at most UEVENT_BUFFER_SIZE, 2048 bytes, and a header.
const ueventBuffer = 8192

// watchStorage announces, on the channel, that the kernel found, changed or lost a device of storage. The channel has room
// for one announcement and is closed when the context ends or the kernel can't be listened to any longer.
func watchStorage(ctx context.Context) (<-chan struct{}, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen to the kernel's device events: %w", err)
	}
	// The read below wakes up now and then to see whether the context has ended.
	wake := unix.NsecToTimeval(int64(200 * time.Millisecond))
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wake),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen to the kernel's device events: %w", err), unix.Close(fd))
	}
	events := make(chan struct{}, 1)
	go func() {
		defer close(events)
		// Nothing was written, so there is nothing to lose in closing.
		defer unix.Close(fd)
		buffer := make([]byte, ueventBuffer)
		for ctx.Err() == nil {
			n, from, err := unix.Recvfrom(fd, buffer, 0)
			switch {
			case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.ENOBUFS): // more events than the socket holds: surely of storage, too
			case err != nil:
				return
			case !ofKernel(from) || !ofStorage(string(buffer[:n])):
				continue
			}
			select {
			case events <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	return events, nil
}

// ofKernel says whether a message was sent by the kernel and not by a program.
func ofKernel(from unix.Sockaddr) bool {
	netlink, ok := from.(*unix.SockaddrNetlink)
	return ok && netlink.Pid == 0
}

// storageSubsystems are those in which disks and their controllers come up.
var storageSubsystems = map[string]bool{"block": true, "scsi": true, "scsi_host": true, "scsi_disk": true, "nvme": true, "nvme-subsystem": true, "ata_port": true, "virtio": true, "mmc": true, "mmc_host": true}

// ofStorage reads the kernel's message: a summary and then NAME=value, each ended by a zero byte
// (linux/kobject_uevent.c). Loop devices and their like are not storage that regiond could install to.
func ofStorage(message string) bool {
	subsystem, path := "", ""
	for field := range strings.SplitSeq(message, "\x00") {
		if value, ok := strings.CutPrefix(field, "SUBSYSTEM="); ok {
			subsystem = value
		}
		if value, ok := strings.CutPrefix(field, "DEVPATH="); ok {
			path = value
		}
	}
	return storageSubsystems[subsystem] && !strings.HasPrefix(path, "/devices/virtual/block/")
}
