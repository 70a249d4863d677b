package efi

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Vendor GUIDs of variables: UEFI's own, and the Boot Loader Interface's (UAPI specification).
const (
	globalGUID = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	loaderGUID = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

// attributes of a variable: non-volatile, for boot services and for the running system. efivarfs has
// them as 32 bits before the content.
const (
	attributes       = 1 | 2 | 4
	attributesLength = 4
)

// variables is a folder of efivarfs.
type variables string

func (v variables) path(name string) string { return filepath.Join(string(v), name+"-"+globalGUID) }

var bootPattern = regexp.MustCompile(`^Boot([0-9A-Fa-f]{4})-` + globalGUID + `$`)

// bootEntry is a variable of a boot option. Its name may differ from bootName(number): some firmware writes the number in
// lower case.
type bootEntry struct {
	number uint16
	name   string
}

// bootEntries lists the boot entries, in order.
func (v variables) bootEntries() ([]bootEntry, error) {
	files, err := os.ReadDir(string(v))
	if err != nil {
		return nil, fmt.Errorf("list EFI variables: %w", err)
	}
	var entries []bootEntry
	for _, f := range files {
		match := bootPattern.FindStringSubmatch(f.Name())
		if match == nil {
			continue
		}
		// Four hexadecimal digits always parse.
		if n, err := strconv.ParseUint(match[1], 16, 16); err == nil {
			entries = append(entries, bootEntry{uint16(n), "Boot" + match[1]})
		}
	}
	slices.SortFunc(entries, func(a, b bootEntry) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name)) })
	return entries, nil
}

// bootOrder is empty where the variable is not there, or holds nothing: it is written then.
func (v variables) bootOrder() ([]uint16, error) {
	b, err := v.read("BootOrder")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errTooShort) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var order []uint16
	for ; len(b) >= 2; b = b[2:] {
		order = append(order, binary.LittleEndian.Uint16(b))
	}
	return order, nil
}

// errTooShort says that a variable does not even have its attributes.
var errTooShort = errors.New("the variable is cut off")

// read returns the content of a variable.
func (v variables) read(name string) ([]byte, error) { return readVariable(v.path(name)) }

func readVariable(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read EFI variable: %w", err)
	}
	if len(b) < attributesLength {
		return nil, fmt.Errorf("read EFI variable %s: %w: %d bytes, want %d at least", path, errTooShort, len(b), attributesLength)
	}
	return b[attributesLength:], nil
}

// write sets a variable unless it has that content already. efivarfs takes a variable in one write.
func (v variables) write(name string, content []byte) error {
	path := v.path(name)
	if old, err := readVariable(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := makeMutable(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("write EFI variable: %w", err)
	}
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, attributes), content...))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write EFI variable: %w", err)
	}
	return nil
}

func (v variables) remove(name string) error {
	path := v.path(name)
	if err := makeMutable(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove EFI variable: %w", err)
	}
	return nil
}

// makeMutable takes away the flag by which efivarfs protects variables from rm -rf. A file system without
// such flags has nothing to take away.
func makeMutable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("EFI variable: %w", err)
	}
	// Opened for reading only.
	defer f.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || err == nil && flags&immutable == 0 {
		return nil
	}
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags&^immutable))
	}
	if err != nil {
		return fmt.Errorf("EFI variable %s: take away its immutable flag: %w", path, err)
	}
	return nil
}

// LoaderPartition returns the unique GUID, in upper case, of the partition that systemd-boot was started
// from (LoaderDevicePartUUID of the Boot Loader Interface); empty when something else booted the machine.
func LoaderPartition(dir string) string {
	b, err := readVariable(filepath.Join(dir, "LoaderDevicePartUUID-"+loaderGUID))
	if err != nil {
		return ""
	}
	guid, ok := fromUCS2(b)
	if !ok {
		return ""
	}
	return strings.ToUpper(guid)
}
