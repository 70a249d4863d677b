package bmc

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"
)

// The one sensor: a temperature in degrees Celsius, whose raw value is the value.
const (
	temperatureSensor = 1
	temperatureName   = "CPU Temp"
	temperatureOn     = 42
	temperatureOff    = 21

	upperNonCritical    = 80
	upperCritical       = 90
	upperNonRecoverable = 100

	upperThresholds = 0x38 // bits 3 to 5: the three upper thresholds
	scanning        = 0xc0 // events and scanning are enabled (section 35.14)
)

// temperatureSDR is a full sensor record (section 43.1).
func temperatureSDR(recordID uint16) []byte {
	r := []byte{
		byte(recordID), byte(recordID >> 8), 0x51, 0x01, 0, // header: ID, version, type 01h, length below
		0x20, 0x00, temperatureSensor, // owner: the BMC, LUN 0
		0x03, 0x01, // entity: processor 1
		0x7f,       // initialization
		0x68,       // auto re-arm, thresholds readable
		0x01, 0x01, // sensor type temperature, event type threshold
		0x80, 0x0a, // assertion events: upper thresholds going high
		0x80, 0x7a, // deassertion events, and upper comparisons are returned
		upperThresholds, 0x00, // thresholds: readable, not settable
		0x00, 0x01, 0x00, // unsigned, degrees C, no modifier
		0x00,                   // linear
		0x01, 0x00, 0x00, 0x00, // M = 1, B = 0
		0x00, 0x00, // accuracy, exponents 0
		0x07,                  // nominal, normal maximum and minimum are given
		temperatureOn, 70, 15, // these
		0xff, 0x00, // sensor maximum and minimum
		upperNonRecoverable, upperCritical, upperNonCritical,
		0x00, 0x00, 0x00, // lower thresholds
		0x01, 0x01, // hysteresis
		0x00, 0x00, 0x00, // reserved, OEM
		0xc0 | byte(len(temperatureName)),
	}
	r = append(r, temperatureName...)
	r[4] = byte(len(r) - 5)
	return r
}

// registerSDRInfo adds Get SDR Repository Info (section 33.9) with the time at which the records were made. go-ipmi's tells
// the present time, so that clients take their caches of the records for outdated every second.
func registerSDRInfo(r *handlers.Registry, records *blobs[uint16], made time.Time) {
	r.RegisterFunc(types.CommandGetSDRRepoInfo, func(context.Context, *handlers.HandlerContext, []byte) ([]byte, types.CompletionCode, error) {
		const version, unspecifiedSpace, reserveSupported = 0x51, 0xffff, 0x02
		out := []byte{version}
		out = binary.LittleEndian.AppendUint16(out, uint16(len(records.ids())))
		out = binary.LittleEndian.AppendUint16(out, unspecifiedSpace)
		out = binary.LittleEndian.AppendUint32(out, seconds(made))
		out = binary.LittleEndian.AppendUint32(out, seconds(made))
		return append(out, reserveSupported), types.CodeOK, nil
	})
}

func registerSensor(r *handlers.Registry, m Machine) {
	// one guards the commands: there is one sensor.
	one := func(answer func(ctx context.Context) ([]byte, types.CompletionCode)) handlers.HandlerFunc {
		return func(ctx context.Context, _ *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
			if len(data) < 1 {
				return nil, types.CodeRequestDataLengthInvalid, nil
			}
			if data[0] != temperatureSensor {
				return nil, types.CodeRequestedDataNotPresent, nil
			}
			out, code := answer(ctx)
			return out, code, nil
		}
	}
	// Get Sensor Reading (section 35.14).
	r.RegisterFunc(types.CommandGetSensorReading, one(func(ctx context.Context) ([]byte, types.CompletionCode) {
		on, err := m.PowerState(ctx)
		if err != nil {
			return nil, types.CodeUnspecifiedError
		}
		value := byte(temperatureOff)
		if on {
			value = temperatureOn
		}
		return []byte{value, scanning, 0xc0}, types.CodeOK // no threshold is passed
	}))
	// Get Sensor Thresholds (section 35.9).
	r.RegisterFunc(types.CommandGetSensorThresholds, one(func(context.Context) ([]byte, types.CompletionCode) {
		return []byte{upperThresholds, 0, 0, 0, upperNonCritical, upperCritical, upperNonRecoverable}, types.CodeOK
	}))
	// Get Sensor Hysteresis (section 35.7).
	r.RegisterFunc(types.CommandGetSensorHysteresis, one(func(context.Context) ([]byte, types.CompletionCode) {
		return []byte{1, 1}, types.CodeOK
	}))
	// Get Sensor Event Enable (section 35.11).
	r.RegisterFunc(types.CommandGetSensorEventEnable, one(func(context.Context) ([]byte, types.CompletionCode) {
		return []byte{scanning, 0x80, 0x0a, 0x80, 0x0a}, types.CodeOK
	}))
}
