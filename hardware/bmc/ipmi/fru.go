package ipmi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/bougou/go-ipmi/pkg/command/storage"
	"github.com/bougou/go-ipmi/pkg/types"
)

// fru is what is used of a FRU inventory (Platform Management FRU Information Storage Definition v1.0 rev 1.3).
type fru struct {
	chassis, board, product fruArea
}

type fruArea struct {
	manufacturer, name, serial, assetTag string
}

// builtinFRU describes the BMC's own chassis (section 34).
const builtinFRU = 0

// readFRU reads only the three areas that are used: inventories of several KiB are common, and each read brings few bytes.
func (b *BMC) readFRU(ctx context.Context) (fru, error) {
	var f fru
	r := &fruReader{b: b, count: fruReadCount}
	var size storage.GetFRUInventoryAreaInfoResponse
	err := b.do(ctx, "read FRU size", &storage.GetFRUInventoryAreaInfoRequest{FRUDeviceID: builtinFRU}, &size)
	if answered(err) {
		b.quirk("has no FRU inventory")
		return f, nil
	}
	if err != nil {
		return f, err
	}
	r.size = int(size.AreaSizeBytes)
	r.words = size.DeviceAccessedByWords

	header, err := r.read(ctx, 0, fruHeaderLength)
	if err != nil {
		return f, err
	}
	offsets, err := decodeFRUHeader(header)
	if err != nil {
		b.quirk("FRU inventory: " + err.Error())
		return f, nil
	}
	for _, a := range []struct {
		offset int
		decode func([]byte) (fruArea, error)
		into   *fruArea
	}{
		{offsets.chassis, decodeChassisArea, &f.chassis},
		{offsets.board, decodeBoardArea, &f.board},
		{offsets.product, decodeProductArea, &f.product},
	} {
		if a.offset == 0 {
			continue
		}
		raw, err := r.readArea(ctx, a.offset)
		if err != nil {
			return f, err
		}
		// What was decoded before an error is kept: wrong checksums are common, wrong contents are not.
		if *a.into, err = a.decode(raw); err != nil {
			b.quirk("FRU inventory: " + err.Error())
		}
	}
	return f, nil
}

// fruReadCount is what is asked for at once. The specification lets a BMC do as little as 16 bytes (section 34.2).
const fruReadCount = 32

type fruReader struct {
	b     *BMC
	count int
	size  int
	words bool
}

// readArea reads an area, whose second byte is its length in units of eight bytes.
func (r *fruReader) readArea(ctx context.Context, offset int) ([]byte, error) {
	head, err := r.read(ctx, offset, 8)
	if err != nil || len(head) < 2 {
		return head, err
	}
	rest, err := r.read(ctx, offset+len(head), int(head[1])*8-len(head))
	return append(head, rest...), err
}

// read gives up to n bytes; fewer at the end of the inventory.
func (r *fruReader) read(ctx context.Context, offset, n int) ([]byte, error) {
	n = min(n, r.size-offset)
	var out []byte
	for len(out) < n {
		want := min(n-len(out), r.count)
		at := offset + len(out)
		request := storage.ReadFRUDataRequest{FRUDeviceID: builtinFRU, ReadOffset: uint16(at), ReadCount: uint8(want)}
		if r.words {
			// Offset and count are in words then; areas start at multiples of eight and have even lengths.
			request.ReadOffset, request.ReadCount = uint16(at/2), uint8((want+1)/2)
		}
		var response storage.ReadFRUDataResponse
		err := r.b.do(ctx, "read FRU", &request, &response)
		code := types.CompletionCode(0)
		switch {
		case errors.As(err, &code) && storage.ReadFRUDataLength2Big(code) && r.count > 8:
			r.count /= 2
			continue
		case answered(err):
			r.b.quirk("FRU inventory is shorter than its size")
			return out, nil
		case err != nil:
			return nil, err
		case len(response.Data) == 0:
			return out, nil
		}
		out = append(out, response.Data[:min(len(response.Data), want)]...)
	}
	return out, nil
}

const fruHeaderLength = 8

type fruOffsets struct{ chassis, board, product int }

// decodeFRUHeader reads the common header (FRU section 8): offsets in units of eight bytes.
func decodeFRUHeader(b []byte) (fruOffsets, error) {
	if len(b) < fruHeaderLength || b[0]&0x0f != 1 {
		return fruOffsets{}, errors.New("no common header of format 1")
	}
	if zeroSum(b[:fruHeaderLength]) != 0 {
		return fruOffsets{}, errors.New("common header has a wrong checksum")
	}
	return fruOffsets{chassis: int(b[2]) * 8, board: int(b[3]) * 8, product: int(b[4]) * 8}, nil
}

// decodeChassisArea is FRU section 10: version, length, type, part number, serial number.
func decodeChassisArea(b []byte) (fruArea, error) {
	f, err := decodeFields(b, 3, false)
	return fruArea{serial: f[1]}, wrapArea("chassis", err)
}

// decodeBoardArea is FRU section 11: version, length, language, date (3), manufacturer, product, serial, part number.
func decodeBoardArea(b []byte) (fruArea, error) {
	f, err := decodeFields(b, 6, wide(b))
	return fruArea{manufacturer: f[0], name: f[1], serial: f[2]}, wrapArea("board", err)
}

// decodeProductArea is FRU section 12: version, length, language, manufacturer, product, part number, version, serial, asset tag.
func decodeProductArea(b []byte) (fruArea, error) {
	f, err := decodeFields(b, 3, wide(b))
	return fruArea{manufacturer: f[0], name: f[1], serial: f[4], assetTag: f[5]}, wrapArea("product", err)
}

func wrapArea(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s area %w", name, err)
}

// wide says whether text of type 3 is UTF-16: in all languages but English (FRU section 13).
func wide(b []byte) bool { return len(b) > 2 && b[2] != 0 && b[2] != 25 }

// decodeFields reads the first six type/length fields (FRU section 13). Missing ones are empty.
func decodeFields(b []byte, at int, wide bool) (out [6]string, err error) {
	const endOfFields = 0xc1
	for i := range out {
		if at >= len(b) {
			return out, errors.New("ends early")
		}
		head := b[at]
		if head == endOfFields {
			break
		}
		length := int(head & 0x3f)
		if at+1+length > len(b) {
			return out, errors.New("has a field beyond its end")
		}
		out[i] = decodeText(head>>6, b[at+1:at+1+length], wide)
		at += 1 + length
	}
	if zeroSum(b) != 0 {
		err = errors.New("has a wrong checksum")
	}
	return out, err
}

// decodeText turns a field into printable text. Vendors fill with blanks and zeros.
func decodeText(kind uint8, b []byte, wide bool) string {
	var s string
	switch {
	case kind == 0: // binary
		if len(b) > 0 {
			s = fmt.Sprintf("%x", b)
		}
	case kind == 1: // BCD plus
		const digits = "0123456789 -.???"
		for _, c := range b {
			s += string(digits[c>>4]) + string(digits[c&0x0f])
		}
	case kind == 2: // 6-bit ASCII, packed from the low bits up
		var bits, n uint
		for _, c := range b {
			bits |= uint(c) << n
			for n += 8; n >= 6; n -= 6 {
				s += string(rune(bits&0x3f + 0x20))
				bits >>= 6
			}
		}
	case wide && len(b)%2 == 0:
		u := make([]uint16, len(b)/2)
		for i := range u {
			u[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
		}
		s = string(utf16.Decode(u))
	default: // 8-bit ASCII and Latin 1
		for _, c := range b {
			s += string(rune(c))
		}
	}
	s = strings.Map(func(r rune) rune {
		if r == 0 || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// zeroSum is 0 for bytes whose last is their checksum.
func zeroSum(b []byte) uint8 {
	var sum uint8
	for _, c := range b {
		sum += c
	}
	return sum
}
