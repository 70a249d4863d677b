package inventory

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// The marker lies raw in the gap between the partition table and the first partition, at 1 MiB less
// 4096 bytes (LBA 2040), outside of all that an image writes: magic, length of the JSON as 32 bits
// little-endian, the JSON of an InstallMarker, zeros. It fits one 4 KiB write.
const (
	MarkerOffset = 1<<20 - MarkerSize
	MarkerSize   = 4096
	markerMagic  = "RGNDMRK1"
	markerHeader = len(markerMagic) + 4
)

// EncodeMarker returns the MarkerSize bytes to write at MarkerOffset.
func EncodeMarker(m InstallMarker) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode install marker: %w", err)
	}
	if len(text) > MarkerSize-markerHeader {
		return nil, fmt.Errorf("encode install marker: %d bytes of JSON, there is room for %d", len(text), MarkerSize-markerHeader)
	}
	b := append([]byte(markerMagic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[len(markerMagic):], uint32(len(text)))
	b = append(b, text...)
	return append(b, make([]byte, MarkerSize-len(b))...), nil
}

// DecodeMarker returns the marker in those bytes. What is not exactly a marker is none: without the
// evidence the disk counts as somebody else's.
func DecodeMarker(b []byte) *InstallMarker {
	if len(b) < markerHeader || !bytes.HasPrefix(b, []byte(markerMagic)) {
		return nil
	}
	length := binary.LittleEndian.Uint32(b[len(markerMagic):])
	if int64(length) > int64(len(b)-markerHeader) {
		return nil
	}
	m := new(InstallMarker)
	if err := json.Unmarshal(b[markerHeader:markerHeader+int(length)], m); err != nil {
		return nil
	}
	return m
}
