package ipmi

import (
	"context"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// Quirks of boot options.
const (
	quirkTimeout    = "boot flags: cannot keep them longer than 60 s (parameter 3 refused)"
	quirkEFI        = "boot flags: does not keep the EFI bit"
	quirkLegacy     = "boot flags: sets the EFI bit by itself"
	quirkInvalid    = "boot flags: keeps the device, but does not mark it as valid"
	quirkPersistent = "boot flags: makes one-shot flags persistent"
)

// SetNetworkBoot makes the next boot, and only that, a network boot in the given firmware mode, and reads it back. The
// server should be off: BMCs drop an override that is set while firmware is running.
func (b *BMC) SetNetworkBoot(ctx context.Context, firmware inventory.FirmwareMode) error {
	return b.setBoot(ctx, "set network boot", types.BootDeviceSelectorForcePXE, firmware)
}

// SetDiskBoot makes the next boot, and only that, one from the default disk.
func (b *BMC) SetDiskBoot(ctx context.Context, firmware inventory.FirmwareMode) error {
	return b.setBoot(ctx, "set disk boot", types.BootDeviceSelectorForceHardDrive, firmware)
}

// ClearBoot removes the override, so that the firmware's own boot order applies.
func (b *BMC) ClearBoot(ctx context.Context) error {
	const operation = "clear boot override"
	// Valid flags that say 'no override' are sent, not invalid ones: BMCs ignore the contents of the latter
	// and keep what they have.
	if err := b.sendFlags(ctx, operation, types.BootOptionParam_BootFlags{BootFlagsValid: true}); err != nil {
		return err
	}
	got, err := b.readFlags(ctx, operation)
	if err != nil {
		return err
	}
	if got.BootFlagsValid && got.BootDeviceSelector != types.BootDeviceSelectorNoOverride {
		return b.ignored(operation, types.BootOptionParam_BootFlags{BootFlagsValid: true}, got)
	}
	return nil
}

func (b *BMC) setBoot(ctx context.Context, operation string, device types.BootDeviceSelector, firmware inventory.FirmwareMode) error {
	want := types.BootOptionParam_BootFlags{
		BootFlagsValid:     true,
		BootDeviceSelector: device,
		// The mode is always encoded, or setting a device flips UEFI machines to legacy.
		BIOSBootType: types.BIOSBootType(firmware == inventory.FirmwareUEFI),
	}
	if err := b.keepFlags(ctx, operation); err != nil {
		return err
	}
	if err := b.sendFlags(ctx, operation, want); err != nil {
		return err
	}
	got, err := b.readFlags(ctx, operation)
	if err != nil {
		return err
	}
	if got.BootDeviceSelector != want.BootDeviceSelector {
		return b.ignored(operation, want, got)
	}
	// Everything else is noted, not refused, since refusing would keep a server that works from ever being installed, and
	// a boot that goes elsewhere shows by the installer not arriving:
	//   - Valid bit (OpenIPMI's simulator clears the whole first byte): the device is there, it may do.
	//   - Mode: the BMC boots what was asked for, in the mode that its firmware set-up says, the usual one to want.
	//   - Persistence: whoever answers the network boot sends the server to its disk when there is no job.
	if !got.BootFlagsValid {
		b.quirk(quirkInvalid)
	}
	switch {
	case bool(want.BIOSBootType) && !bool(got.BIOSBootType):
		b.quirk(quirkEFI)
	case !bool(want.BIOSBootType) && bool(got.BIOSBootType):
		b.quirk(quirkLegacy)
	}
	if got.Persist {
		b.quirk(quirkPersistent)
	}
	return nil
}

// keepFlags asks the BMC not to drop the flags after 60 s without a chassis control command (parameter 3 bit 3, section
// 28.12 and table 28-14), which slow power-on sequences outlast. It must precede the flags. Optional: BMCs
// that refuse it are noted; regiond powers on right after setting the flags.
func (b *BMC) keepFlags(ctx context.Context, operation string) error {
	p := types.BootOptionParam_BMCBootFlagValidBitClear{DontClearOnCommandReceivedTimeout: true}
	request := chassis.SetSystemBootOptionsParamRequest{
		ParamSelector: types.BootOptionParamSelector_BMCBootFlagValidBitClear,
		ParamData:     p.Pack(),
	}
	err := b.do(ctx, operation, &request, &chassis.SetSystemBootOptionsParamResponse{})
	code := types.CompletionCode(0)
	if !errors.As(err, &code) {
		return err
	}
	if _, reason := classOfCompletionCode(code); reason != region.ReasonUnsupportedByBMC && code != types.CodeParameterNotSupported {
		return err
	}
	b.quirk(quirkTimeout)
	return nil
}

func (b *BMC) sendFlags(ctx context.Context, operation string, f types.BootOptionParam_BootFlags) error {
	// Parameter 5 alone: 'set in progress' (parameter 0) is refused by some BMCs and left hanging by others.
	request := chassis.SetSystemBootOptionsParamRequest{ParamSelector: types.BootOptionParamSelector_BootFlags, ParamData: f.Pack()}
	return b.do(ctx, operation, &request, &chassis.SetSystemBootOptionsParamResponse{})
}

func (b *BMC) readFlags(ctx context.Context, operation string) (types.BootOptionParam_BootFlags, error) {
	var f types.BootOptionParam_BootFlags
	request := chassis.GetSystemBootOptionsParamRequest{ParamSelector: types.BootOptionParamSelector_BootFlags}
	var r chassis.GetSystemBootOptionsParamResponse
	if err := b.do(ctx, operation+", read back", &request, &r); err != nil {
		return f, err
	}
	if err := unpack(&f, r.ParamData); err != nil {
		return f, b.explain(operation+", read back", err)
	}
	return f, nil
}

// ignored is retried: BMCs drop overrides while firmware runs its self test.
func (b *BMC) ignored(operation string, want, got types.BootOptionParam_BootFlags) error {
	return b.fail(bmc.Retry, region.ReasonBootOverrideIgnored, operation,
		fmt.Sprintf("sent %s, but the BMC keeps %s", describe(want), describe(got)),
		"power the server off and try again; look for a pending firmware configuration job on the BMC", nil)
}

// describe is boot flags in few words.
func describe(f types.BootOptionParam_BootFlags) string {
	s := "no boot device"
	if f.BootDeviceSelector != types.BootDeviceSelectorNoOverride {
		mode, once := "legacy", "once"
		if f.BIOSBootType {
			mode = "EFI"
		}
		if f.Persist {
			once = "always"
		}
		s = fmt.Sprintf("%q (%s, %s)", f.BootDeviceSelector.String(), mode, once)
	}
	return s
}
