// Package efi changes the boot variables of UEFI firmware through Linux's efivarfs (UEFI 2.10
// section 3.1; kernel documentation, filesystems/efivarfs).
package efi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// BootEntry is a boot option that starts a file on a partition.
type BootEntry struct {
	// Label is the name in the firmware's menu. An entry of the same label is replaced.
	Label string
	// Path of the file on the partition, with backslashes.
	Path string
	// Partition number from 1, its place in sectors, and its unique GUID in text form.
	Partition         uint32
	StartLBA, Sectors uint64
	PartitionGUID     string
}

// SetBootEntry makes the entry the first in the boot order, and checks that it is. dir is where efivarfs is mounted. An
// earlier entry of the same label is reused and further ones are removed, so that installing again and again does
// not fill the variable store; a variable that has the desired content is not written, to spare the flash.
//
// Each variable is judged alone: firmware and other systems leave odd ones behind (empty, cut off, named in lower
// case), which are nobody's entry of ours, keep their number and are not touched.
func SetBootEntry(dir string, entry BootEntry) error {
	option, err := entry.loadOption()
	if err != nil {
		return err
	}
	v := variables(dir)
	entries, err := v.bootEntries()
	if err != nil {
		return err
	}
	target, stale, err := choose(v, entries, entry.Label)
	if err != nil {
		return err
	}
	if err := v.write(target.name, option); err != nil {
		return err
	}
	order, err := v.bootOrder()
	if err != nil {
		return err
	}
	// The order before the removal: it must never name an entry that is gone.
	if err := v.write("BootOrder", encodeOrder(promote(order, target.number, stale))); err != nil {
		return err
	}
	// A stale entry that can't be removed does no harm: it is not in the order any more.
	for _, e := range stale {
		_ = v.remove(e.name)
	}
	return v.check(target, option)
}

// check reads back what firmware will see: some accept a write and forget it.
func (v variables) check(target bootEntry, option []byte) error {
	written, err := v.read(target.name)
	if err != nil {
		return err
	}
	if !bytes.Equal(written, option) {
		return fmt.Errorf("EFI variable %s does not keep what was written to it", target.name)
	}
	order, err := v.bootOrder()
	if err != nil {
		return err
	}
	if len(order) == 0 || order[0] != target.number {
		return fmt.Errorf("EFI variable BootOrder begins with %04X and not with %04X, though that was written", order, target.number)
	}
	return nil
}

// choose returns the variable to use for a label, and the further ones that have it.
func choose(v variables, entries []bootEntry, label string) (target bootEntry, stale []bootEntry, err error) {
	var same []bootEntry
	used := map[uint16]bool{}
	for _, e := range entries {
		used[e.number] = true
		// One that can't be read is not ours.
		option, err := v.read(e.name)
		if err != nil {
			continue
		}
		if found, ok := optionLabel(option); ok && found == label {
			same = append(same, e)
		}
	}
	// Firmware looks for the name in capitals only (UEFI 2.10 section 3.1.1): another one is not booted.
	if i := slices.IndexFunc(same, func(e bootEntry) bool { return e.name == bootName(e.number) }); i >= 0 {
		target = same[i]
		return target, slices.Delete(same, i, i+1), nil
	}
	for n := range uint16(0xFFFF) {
		if !used[n] {
			return bootEntry{n, bootName(n)}, same, nil
		}
	}
	return bootEntry{}, nil, errors.New("all numbers of boot entries are in use")
}

// promote puts a number first and leaves the stale ones out.
func promote(order []uint16, first uint16, stale []bootEntry) []uint16 {
	next := []uint16{first}
	for _, n := range order {
		if !slices.Contains(next, n) && !slices.ContainsFunc(stale, func(e bootEntry) bool { return e.number == n }) {
			next = append(next, n)
		}
	}
	return next
}

func bootName(n uint16) string { return fmt.Sprintf("Boot%04X", n) }

func encodeOrder(order []uint16) []byte {
	var b []byte
	for _, n := range order {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	return b
}

// loadOption is an EFI_LOAD_OPTION (UEFI 2.10 section 3.1.3): attributes, length of the device path, label,
// device path of a hard drive media node, a file path node and the end.
func (e BootEntry) loadOption() ([]byte, error) {
	guid, err := guidBytes(e.PartitionGUID)
	if err != nil {
		return nil, err
	}
	// Hard Drive Media Device Path (section 10.3.5.1), with the signature type GUID of a GPT.
	path := []byte{4, 1, 42, 0}
	path = binary.LittleEndian.AppendUint32(path, e.Partition)
	path = binary.LittleEndian.AppendUint64(path, e.StartLBA)
	path = binary.LittleEndian.AppendUint64(path, e.Sectors)
	path = append(path, guid...)
	path = append(path, 2, 2)
	// File Path Media Device Path (section 10.3.5.4).
	file := ucs2(e.Path)
	path = append(path, 4, 4)
	path = binary.LittleEndian.AppendUint16(path, uint16(4+len(file)))
	path = append(path, file...)
	path = append(path, 0x7F, 0xFF, 4, 0)

	const active = 1
	option := binary.LittleEndian.AppendUint32(nil, active)
	option = binary.LittleEndian.AppendUint16(option, uint16(len(path)))
	option = append(option, ucs2(e.Label)...)
	return append(option, path...), nil
}

// optionLabel reads the label of a load option.
func optionLabel(option []byte) (string, bool) {
	const header = 6
	if len(option) < header {
		return "", false
	}
	return fromUCS2(option[header:])
}

// ucs2 is little-endian text with a zero at its end.
func ucs2(s string) []byte {
	var b []byte
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// fromUCS2 reads text up to its zero.
func fromUCS2(b []byte) (string, bool) {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			return string(utf16.Decode(units)), true
		}
		units = append(units, u)
	}
	return "", false
}

// guidBytes is the EFI_GUID of a text form: the first three fields are little-endian.
func guidBytes(s string) ([]byte, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return nil, fmt.Errorf("partition GUID %q is not a GUID", s)
	}
	slices.Reverse(b[0:4])
	slices.Reverse(b[4:6])
	slices.Reverse(b[6:8])
	return bytes.Clone(b), nil
}
