package bmc

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// ByteOrder is how a BMC encodes its system GUID. The specification (section 20.8) wants all 16
// bytes in reverse; most BMCs copy the SMBIOS structure instead, whose first three fields are little-endian
// (SMBIOS 7.2.1); some send the text's order. Nothing in the answer tells which.
type ByteOrder string

// Byte orders of a GUID.
const (
	OrderSMBIOS  ByteOrder = "SMBIOS"
	OrderRFC4122 ByteOrder = "RFC4122"
	OrderIPMI    ByteOrder = "IPMI"
)

// GUIDToUUID turns the 16 bytes of Get System GUID into the text that the operating system shows (dmidecode,
// /sys/class/dmi/id/product_uuid, QEMU's -uuid). The order is guessed by which reading has the variant
// and a version of RFC 4122, in the order SMBIOS, RFC 4122, IPMI; SMBIOS when none has. A random UUID
// read wrongly passes for valid half of the time, so identity is compared by package fingerprint.
// All zeros and all ones mean 'not set' (SMBIOS 7.2.1) and give the empty string.
func GUIDToUUID(guid [16]byte) (string, ByteOrder) {
	if guid == ([16]byte{}) || !slices.ContainsFunc(guid[:], func(b byte) bool { return b != 0xff }) {
		return "", OrderSMBIOS
	}
	for _, order := range []ByteOrder{OrderSMBIOS, OrderRFC4122, OrderIPMI} {
		u := reorder(guid, order)
		version := u[6] >> 4
		if u[8]&0xc0 == 0x80 && version >= 1 && version <= 8 {
			return format(u), order
		}
	}
	return format(reorder(guid, OrderSMBIOS)), OrderSMBIOS
}

// UUIDToGUID is the reverse, in the given order. It refuses text that is not a UUID.
func UUIDToGUID(text string, order ByteOrder) ([16]byte, error) {
	var u [16]byte
	plain := strings.ReplaceAll(text, "-", "")
	if len(text) != 36 || len(plain) != 32 {
		return u, fmt.Errorf("UUID %q is not of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", text)
	}
	if _, err := hex.Decode(u[:], []byte(plain)); err != nil {
		return u, fmt.Errorf("UUID %q: %w", text, err)
	}
	return reorder(u, order), nil
}

// reorder converts between the text's order and the given one; each is its own inverse.
func reorder(u [16]byte, order ByteOrder) [16]byte {
	switch order {
	case OrderSMBIOS:
		slices.Reverse(u[0:4])
		slices.Reverse(u[4:6])
		slices.Reverse(u[6:8])
	case OrderIPMI:
		slices.Reverse(u[:])
	}
	return u
}

func format(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
