package bmc

import (
	"context"
	"sync"
	"time"

	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"
)

// flagsTimeout after which valid boot flags become invalid when no chassis control command came (section 28.12).
const flagsTimeout = 60 * time.Second

// Lengths of the boot option parameters that are kept (table 28-14).
var parameterLength = map[types.BootOptionParamSelector]int{
	types.BootOptionParamSelector_SetInProgress:            1,
	types.BootOptionParamSelector_BMCBootFlagValidBitClear: 1,
	types.BootOptionParamSelector_BootInfoAcknowledge:      2,
	types.BootOptionParamSelector_BootFlags:                5,
	types.BootOptionParamSelector_BootInitiatorInfo:        9,
}

// Bits of boot option parameters.
const (
	flagsValid       = 0x80 // parameter 5, first byte
	flagsPersistent  = 0x40
	flagsEFI         = 0x20
	clearNotByTime   = 0x08 // parameter 3
	setComplete      = 0x00 // parameter 0
	setInProgress    = 0x01
	parameterInvalid = 0x80 // with the selector
)

// bootOptions is what Set System Boot Options keeps. The BMC stands in for the firmware too: it applies the flags when
// the power goes on and clears those for one boot.
type bootOptions struct {
	clock clock.Clock

	mu         sync.Mutex
	parameters map[types.BootOptionParamSelector][]byte
	invalid    map[types.BootOptionParamSelector]bool
	flagsSet   time.Time
}

func newBootOptions(c clock.Clock) *bootOptions {
	o := &bootOptions{clock: c, parameters: map[types.BootOptionParamSelector][]byte{}, invalid: map[types.BootOptionParamSelector]bool{}}
	for selector, length := range parameterLength {
		o.parameters[selector] = make([]byte, length)
	}
	return o
}

func (o *bootOptions) register(r *handlers.Registry) {
	r.RegisterFunc(types.CommandSetSystemBootOptions, o.set)
	r.RegisterFunc(types.CommandGetSystemBootOptions, o.get)
}

// set is Set System Boot Options (section 28.12).
func (o *bootOptions) set(_ context.Context, hc *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
	if hc.Session != nil && hc.Session.PrivilegeLevel < 3 {
		return nil, types.CodeInsufficientPrivilege, nil // appendix G: OPERATOR; go-ipmi asks for USER only
	}
	if len(data) < 1 {
		return nil, types.CodeRequestDataLengthInvalid, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	selector := types.BootOptionParamSelector(data[0] &^ parameterInvalid)
	old, known := o.parameters[selector]
	if !known {
		return nil, types.CodeParameterNotSupported, nil
	}
	value := data[1:]
	switch {
	case len(value) == 0:
		// Only the mark changes.
	case len(value) != len(old):
		return nil, types.CodeRequestDataLengthInvalid, nil
	case selector == types.BootOptionParamSelector_SetInProgress && value[0] == setInProgress && old[0] != setComplete:
		return nil, types.CodeParamConfigSetInProgressConflict, nil
	default:
		o.parameters[selector] = append([]byte(nil), value...)
	}
	o.invalid[selector] = data[0]&parameterInvalid != 0
	if selector == types.BootOptionParamSelector_BootFlags {
		o.flagsSet = o.clock.Now()
	}
	return nil, types.CodeOK, nil
}

// get is Get System Boot Options (section 28.13).
func (o *bootOptions) get(_ context.Context, _ *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
	if len(data) < 1 {
		return nil, types.CodeRequestDataLengthInvalid, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire()
	selector := types.BootOptionParamSelector(data[0] &^ parameterInvalid)
	value, known := o.parameters[selector]
	if !known {
		return nil, types.CodeParameterNotSupported, nil
	}
	mark := byte(selector)
	if o.invalid[selector] {
		mark |= parameterInvalid
	}
	const parameterVersion = 1
	return append([]byte{parameterVersion, mark}, value...), types.CodeOK, nil
}

// expire clears valid flags whose time is over, unless that was turned off.
func (o *bootOptions) expire() {
	flags := o.parameters[types.BootOptionParamSelector_BootFlags]
	keep := o.parameters[types.BootOptionParamSelector_BMCBootFlagValidBitClear][0]&clearNotByTime != 0
	// Persistent flags are the firmware's setting once a boot took them; they are simply kept here.
	if !keep && flags[0]&flagsPersistent == 0 && o.clock.Now().Sub(o.flagsSet) >= flagsTimeout {
		flags[0] &^= flagsValid
	}
}

// take gives the override for a boot that begins now, and clears flags that are for one boot.
func (o *bootOptions) take() Boot {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire()
	flags := o.parameters[types.BootOptionParamSelector_BootFlags]
	if flags[0]&flagsValid == 0 || o.invalid[types.BootOptionParamSelector_BootFlags] {
		return Boot{}
	}
	var boot Boot
	switch types.BootDeviceSelector(flags[1] >> 2 & 0x0f) {
	case types.BootDeviceSelectorForcePXE:
		boot = Boot{Device: BootPXE, EFI: flags[0]&flagsEFI != 0}
	case types.BootDeviceSelectorForceHardDrive, types.BootDeviceSelectorForceHardDriveSafe:
		boot = Boot{Device: BootDisk, EFI: flags[0]&flagsEFI != 0}
	}
	if flags[0]&flagsPersistent == 0 {
		flags[0] &^= flagsValid
	}
	return boot
}
