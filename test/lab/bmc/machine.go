package bmc

import (
	"context"
	"io"
)

// Machine is the host behind a BMC. Its methods may be called from several goroutines; the power actions are called one by one.
type Machine interface {
	// PowerState says whether the machine is on.
	PowerState(ctx context.Context) (on bool, err error)
	// PowerOn starts the machine with a boot override. A machine that is on is left alone.
	PowerOn(ctx context.Context, boot Boot) error
	// PowerOff cuts the power. A machine that is off is left alone.
	PowerOff(ctx context.Context) error
	// Reset restarts a machine that is on, with a boot override.
	Reset(ctx context.Context, boot Boot) error
	// SoftOff presses the power button (ACPI) and does not wait.
	SoftOff(ctx context.Context) error
	// Console attaches to the serial console. It fails while there is none.
	Console(ctx context.Context) (io.ReadWriteCloser, error)
}

// Boot devices of an override.
const (
	BootDefault = ""
	BootPXE     = "pxe"
	BootDisk    = "disk"
)

// Boot is an override of the firmware's boot order for one boot.
type Boot struct {
	// Device to boot from; the firmware's own order when empty.
	Device string
	// EFI is the requested firmware mode, without meaning when Device is empty.
	EFI bool
}
