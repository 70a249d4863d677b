package inventory

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// System reads the SMBIOS strings that the kernel publishes.
func (r Reader) System() SystemInfo {
	return SystemInfo{
		Manufacturer: r.text("class/dmi/id/sys_vendor"),
		Product:      r.text("class/dmi/id/product_name"),
		SerialNumber: r.text("class/dmi/id/product_serial"),
		UUID:         r.text("class/dmi/id/product_uuid"),
		BIOSVersion:  r.text("class/dmi/id/bios_version"),
	}
}

func (r Reader) firmware() FirmwareMode {
	if r.exists("firmware/efi") {
		return FirmwareUEFI
	}
	return FirmwareBIOS
}

// cpu counts by the kernel's topology: hyper-threads of a core share (package, core).
func (r Reader) cpu() CPUInfo {
	info := CPUInfo{Model: r.cpuModel()}
	folders, err := fs.Glob(r.Sys, "devices/system/cpu/cpu[0-9]*")
	if err != nil {
		return info // The pattern is constant; Glob ignores errors of the file system.
	}
	sockets, cores := map[string]bool{}, map[string]bool{}
	for _, folder := range folders {
		socket := r.text(path.Join(folder, "topology/physical_package_id"))
		if socket == "" {
			continue // Switched off by maxcpus= or by hotplug.
		}
		info.Threads++
		sockets[socket] = true
		cores[socket+"/"+r.text(path.Join(folder, "topology/core_id"))] = true
	}
	info.Sockets, info.Cores = int32(len(sockets)), int32(len(cores))
	return info
}

func (r Reader) cpuModel() string {
	value, err := procValue(r.Proc, "cpuinfo", "model name")
	if err != nil {
		return ""
	}
	return value
}

// procValue returns the first value of a "name : value" file of procfs.
func procValue(proc fs.FS, file, name string) (string, error) {
	b, err := fs.ReadFile(proc, file)
	if err != nil {
		return "", fmt.Errorf("inventory: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("inventory: /proc/%s has no line %q", file, name)
}

// memoryBytes is the sum of the memory modules in the SMBIOS table, or, where there is none, what
// the kernel manages (which lacks what firmware and kernel reserve).
func (r Reader) memoryBytes() (int64, error) {
	if table, err := fs.ReadFile(r.Sys, "firmware/dmi/tables/DMI"); err == nil {
		if n := smbiosMemory(table); n > 0 {
			return n, nil
		}
	}
	value, err := procValue(r.Proc, "meminfo", "MemTotal")
	if err != nil {
		return 0, err
	}
	var kib int64
	if _, err := fmt.Sscanf(value, "%d kB", &kib); err != nil {
		return 0, fmt.Errorf("inventory: MemTotal of /proc/meminfo is %q, want kB", value)
	}
	return kib << 10, nil
}

// smbiosMemory adds up the Memory Devices (type 17) of an SMBIOS structure table (DMTF DSP0134
// sections 6.1.2 and 7.18). It stops at the first structure that makes no sense.
func smbiosMemory(table []byte) int64 {
	const typeMemoryDevice, typeEnd = 17, 127
	var total int64
	for len(table) >= 4 {
		kind, length := table[0], int(table[1])
		if length < 4 || length > len(table) || kind == typeEnd {
			break
		}
		formatted := table[:length]
		if kind == typeMemoryDevice && length >= 0x0E {
			total += memoryDeviceBytes(formatted)
		}
		// The strings end with two zero bytes, also when there are none.
		end := bytes.Index(table[length:], []byte{0, 0})
		if end < 0 {
			break
		}
		table = table[length+end+2:]
	}
	return total
}

func memoryDeviceBytes(device []byte) int64 {
	switch size := binary.LittleEndian.Uint16(device[0x0C:]); {
	case size == 0 || size == 0xFFFF: // empty slot, unknown
		return 0
	case size == 0x7FFF: // too big for 15 bits: Extended Size in MiB
		if len(device) < 0x20 {
			return 0
		}
		return int64(binary.LittleEndian.Uint32(device[0x1C:])&0x7FFFFFFF) << 20
	case size&0x8000 != 0: // in KiB
		return int64(size&0x7FFF) << 10
	default:
		return int64(size) << 20
	}
}
