package bmc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/types"
)

// hardwareLayer is what go-ipmi's handlers see of the machine. Chassis and sensors are missing: their
// commands are answered here.
type hardwareLayer struct {
	storage *storage
	console *console
}

func (h *hardwareLayer) Chassis() hal.ChassisHAL { return nil }
func (h *hardwareLayer) Sensors() hal.SensorHAL  { return nil }
func (h *hardwareLayer) Storage() hal.StorageHAL { return h.storage }
func (h *hardwareLayer) Network() hal.NetworkHAL { return nil }
func (h *hardwareLayer) GPIO() hal.GPIOHAL       { return nil }
func (h *hardwareLayer) I2C() hal.I2CHAL         { return nil }
func (h *hardwareLayer) Console() hal.ConsoleHAL { return h.console }
func (h *hardwareLayer) Close() error            { return nil }

// storage holds FRU device 0 and the sensor data records.
type storage struct {
	fru *blobs[uint8]
	sdr *blobs[uint16]
}

func newStorage(f FRU) (*storage, error) {
	for _, text := range []*string{&f.Manufacturer, &f.Product, &f.SerialNumber} {
		if len(*text) > 63 {
			return nil, fmt.Errorf("%q has %d bytes, a field holds 63", *text, len(*text))
		}
		if len(*text) == 1 {
			// A text of one byte has the code that ends the fields (0xC1).
			*text += " "
		}
	}
	inventory, err := types.PackFRU(types.FRUPackConfig{
		Chassis: &types.FRUPackChassis{Type: 0x17, PartNumber: "virtual", Serial: f.SerialNumber}, // rack mount chassis
		Board: &types.FRUPackBoard{
			MfgDate: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			Mfg:     f.Manufacturer, Product: f.Product, Serial: f.SerialNumber, PartNumber: "virtual",
		},
		Product: &types.FRUPackProduct{Manufacturer: f.Manufacturer, Name: f.Product, PartModel: "virtual", Version: "1.0", Serial: f.SerialNumber},
	})
	if err != nil {
		return nil, err
	}
	const locator, temperature = 1, 2
	return &storage{
		fru: &blobs[uint8]{m: map[uint8][]byte{0: inventory}},
		sdr: &blobs[uint16]{m: map[uint16][]byte{
			// Without a locator record clients do not look for FRU device 0.
			locator:     types.PackMCLocator(types.MCLocatorPackOpts{RecordID: locator, DeviceSupport: 0x8f, Name: "BMC"}),
			temperature: temperatureSDR(temperature),
		}},
	}, nil
}

func (s *storage) FRU() hal.FRUStore { return s.fru }
func (s *storage) SDR() hal.SDRStore { return sdrStore{s.sdr} }

type sdrStore struct{ *blobs[uint16] }

func (s sdrStore) RecordIDs(context.Context) ([]uint16, error) { return s.ids(), nil }

// blobs are byte strings by number.
type blobs[K interface{ ~uint8 | ~uint16 }] struct {
	mu sync.Mutex
	m  map[K][]byte
}

func (b *blobs[K]) Read(_ context.Context, id K) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.m[id]
	if !ok {
		return nil, hal.ErrNotFound
	}
	return slices.Clone(v), nil
}

func (b *blobs[K]) Write(_ context.Context, id K, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[id] = slices.Clone(data)
	return nil
}

func (b *blobs[K]) Delete(_ context.Context, id K) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, id)
	return nil
}

func (b *blobs[K]) DeviceIDs(context.Context) ([]K, error) { return b.ids(), nil }

func (b *blobs[K]) ids() []K {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.m))
}
