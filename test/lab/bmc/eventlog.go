package bmc

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"
)

// event is what the BMC logs: a sensor type with an offset (table 42-3).
type event struct{ sensorType, sensor, offset uint8 }

// Events of the power.
var (
	eventPowerOn   = event{0x22, sensorPowerState, 0x00} // System ACPI Power State: S0/G0 working
	eventPowerOff  = event{0x22, sensorPowerState, 0x06} // S4/S5 soft-off
	eventHardReset = event{0x1d, sensorRestart, 0x01}    // System Boot Initiated: initiated by hard reset
)

// Numbers of the sensors that events name. They have no SDR.
const (
	sensorPowerState = 0x10
	sensorRestart    = 0x11
)

const (
	recordLength   = 16
	maxRecords     = 512
	firstRecord    = 0x0000
	lastRecord     = 0xffff
	systemEvent    = 0x02 // record type (section 32.1)
	fromBMC        = 0x20 // generator ID: IPMB address of the BMC
	messageRev     = 0x04 // section 32.1: IPMI v2.0
	sensorSpecific = 0x6f // event type (table 42-1)
)

// eventLog is the System Event Log (section 31), kept in memory. When it is full the oldest record goes.
type eventLog struct {
	clock clock.Clock

	mu          sync.Mutex
	records     [][recordLength]byte
	next        uint16
	added       time.Time
	erased      time.Time
	reservation uint16
	offset      time.Duration // of the log's clock, by Set SEL Time
}

func newEventLog(c clock.Clock) *eventLog { return &eventLog{clock: c, next: 1, erased: c.Now()} }

func (l *eventLog) register(r *handlers.Registry) {
	r.RegisterFunc(types.CommandGetSELInfo, l.locked(l.info))
	r.RegisterFunc(types.CommandGetSELAllocInfo, l.locked(l.allocation))
	r.RegisterFunc(types.CommandReserveSEL, l.locked(l.reserve))
	r.RegisterFunc(types.CommandGetSELEntry, l.locked(l.entry))
	r.RegisterFunc(types.CommandAddSELEntry, l.locked(l.addEntry))
	r.RegisterFunc(types.CommandClearSEL, l.locked(l.clear))
	r.RegisterFunc(types.CommandGetSELTime, l.locked(l.time))
	r.RegisterFunc(types.CommandSetSELTime, l.locked(l.setTime))
}

type command func(data []byte) ([]byte, types.CompletionCode)

func (l *eventLog) locked(c command) handlers.HandlerFunc {
	return func(_ context.Context, _ *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		out, code := c(data)
		return out, code, nil
	}
}

// add logs an event of the BMC's own.
func (l *eventLog) add(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r [recordLength]byte
	r[2] = systemEvent
	binary.LittleEndian.PutUint16(r[7:], fromBMC)
	r[9], r[10], r[11], r[12] = messageRev, e.sensorType, e.sensor, sensorSpecific
	r[13], r[14], r[15] = e.offset, 0xff, 0xff // 0xff: unspecified
	l.append(r)
}

func (l *eventLog) append(r [recordLength]byte) uint16 {
	id := l.next
	l.next++
	if l.next == lastRecord {
		l.next = 1
	}
	binary.LittleEndian.PutUint16(r[0:], id)
	if r[2] < 0xe0 { // types from 0xe0 on have no time stamp (section 32)
		binary.LittleEndian.PutUint32(r[3:], seconds(l.now()))
	}
	if len(l.records) == maxRecords {
		l.records = l.records[1:]
	}
	l.records = append(l.records, r)
	l.added = l.now()
	return id
}

func (l *eventLog) now() time.Time { return l.clock.Now().Add(l.offset) }

func seconds(t time.Time) uint32 {
	if t.IsZero() {
		return 0xffffffff // section 37: unspecified
	}
	return uint32(t.Unix())
}

// info is Get SEL Info (section 31.2).
func (l *eventLog) info([]byte) ([]byte, types.CompletionCode) {
	out := []byte{0x51}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(l.records)))
	out = binary.LittleEndian.AppendUint16(out, uint16((maxRecords-len(l.records))*recordLength))
	out = binary.LittleEndian.AppendUint32(out, seconds(l.added))
	out = binary.LittleEndian.AppendUint32(out, seconds(l.erased))
	return append(out, 0x03), types.CodeOK // Reserve SEL and Get SEL Allocation Info are supported
}

// allocation is Get SEL Allocation Info (section 31.3).
func (l *eventLog) allocation([]byte) ([]byte, types.CompletionCode) {
	free := uint16(maxRecords - len(l.records))
	out := binary.LittleEndian.AppendUint16(nil, maxRecords)
	out = binary.LittleEndian.AppendUint16(out, recordLength)
	out = binary.LittleEndian.AppendUint16(out, free)
	out = binary.LittleEndian.AppendUint16(out, free)
	return append(out, 1), types.CodeOK
}

// reserve is Reserve SEL (section 31.4).
func (l *eventLog) reserve([]byte) ([]byte, types.CompletionCode) {
	if l.reservation++; l.reservation == 0 {
		l.reservation = 1
	}
	return binary.LittleEndian.AppendUint16(nil, l.reservation), types.CodeOK
}

// entry is Get SEL Entry (section 31.5).
func (l *eventLog) entry(data []byte) ([]byte, types.CompletionCode) {
	if len(data) < 6 {
		return nil, types.CodeRequestDataLengthInvalid
	}
	id := binary.LittleEndian.Uint16(data[2:])
	offset, count := int(data[4]), int(data[5])
	if offset > 0 && binary.LittleEndian.Uint16(data) != l.reservation {
		return nil, types.CodeReservationCanceled
	}
	at := -1
	for i, r := range l.records {
		if binary.LittleEndian.Uint16(r[:]) == id {
			at = i
		}
	}
	switch {
	case len(l.records) == 0:
		return nil, types.CodeRequestedDataNotPresent
	case id == firstRecord:
		at = 0
	case id == lastRecord:
		at = len(l.records) - 1
	case at < 0:
		return nil, types.CodeRequestedDataNotPresent
	}
	if count == 0xff {
		count = recordLength - offset
	}
	if offset >= recordLength || offset+count > recordLength {
		return nil, types.CodeParameterOutOfRange
	}
	next := uint16(lastRecord)
	if at+1 < len(l.records) {
		next = binary.LittleEndian.Uint16(l.records[at+1][:])
	}
	return append(binary.LittleEndian.AppendUint16(nil, next), l.records[at][offset:offset+count]...), types.CodeOK
}

// addEntry is Add SEL Entry (section 31.6).
func (l *eventLog) addEntry(data []byte) ([]byte, types.CompletionCode) {
	if len(data) != recordLength {
		return nil, types.CodeRequestDataLengthInvalid
	}
	return binary.LittleEndian.AppendUint16(nil, l.append([recordLength]byte(data))), types.CodeOK
}

// clear is Clear SEL (section 31.9).
func (l *eventLog) clear(data []byte) ([]byte, types.CompletionCode) {
	const initiate, erasureCompleted = 0xaa, 0x01
	if len(data) < 6 {
		return nil, types.CodeRequestDataLengthInvalid
	}
	if string(data[2:5]) != "CLR" {
		return nil, types.CodeRequestDataFieldInvalid
	}
	if data[5] == initiate {
		if binary.LittleEndian.Uint16(data) != l.reservation {
			return nil, types.CodeReservationCanceled
		}
		l.records, l.erased = nil, l.now()
	}
	return []byte{erasureCompleted}, types.CodeOK
}

// time is Get SEL Time (section 31.10).
func (l *eventLog) time([]byte) ([]byte, types.CompletionCode) {
	return binary.LittleEndian.AppendUint32(nil, seconds(l.now())), types.CodeOK
}

// setTime is Set SEL Time (section 31.11).
func (l *eventLog) setTime(data []byte) ([]byte, types.CompletionCode) {
	if len(data) < 4 {
		return nil, types.CodeRequestDataLengthInvalid
	}
	l.offset = time.Unix(int64(binary.LittleEndian.Uint32(data)), 0).Sub(l.clock.Now())
	return nil, types.CodeOK
}
