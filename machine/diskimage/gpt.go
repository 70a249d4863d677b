package diskimage

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// WriteTable writes the partition tables (primary and backup, UEFI 2.10 section 5.3) and then the
// first sector with the boot code, each synced before the next: what is bootable comes last. It
// returns the unique GUIDs of the partitions by label, in upper case.
func WriteTable(disk *os.File, diskBytes int64, parts []Part, bootCode []byte) (map[string]string, error) {
	table := &gpt.Table{LogicalSectorSize: SectorSize, PhysicalSectorSize: SectorSize}
	for _, p := range parts {
		table.Partitions = append(table.Partitions, &gpt.Partition{
			Index: p.Index, Start: p.StartLBA, End: p.EndLBA, Type: gpt.Type(p.TypeGUID), Name: p.Label, Attributes: p.Attributes,
		})
	}
	if err := table.Write(disk, diskBytes/SectorSize*SectorSize); err != nil {
		return nil, fmt.Errorf("write partition table of %s: %w", disk.Name(), err)
	}
	sector, err := firstSector(bootCode, diskBytes)
	if err != nil {
		return nil, err
	}
	if _, err := disk.WriteAt(sector, 0); err != nil {
		return nil, fmt.Errorf("write boot sector of %s: %w", disk.Name(), err)
	}
	if err := disk.Sync(); err != nil {
		return nil, fmt.Errorf("write boot sector of %s: %w", disk.Name(), err)
	}
	guids := make(map[string]string, len(table.Partitions))
	for _, p := range table.Partitions {
		guids[p.Name] = strings.ToUpper(p.GUID)
	}
	return guids, nil
}

// firstSector is the boot code and the protective MBR of UEFI 2.10 section 5.2.3. It is made here
// because go-diskfs cuts off the size of disks over 2 TiB where the specification wants 0xFFFFFFFF.
func firstSector(bootCode []byte, diskBytes int64) ([]byte, error) {
	if len(bootCode) > maxBootCode {
		return nil, fmt.Errorf("boot code has %d bytes, there is room for %d", len(bootCode), maxBootCode)
	}
	sector := make([]byte, SectorSize)
	copy(sector, bootCode)
	entry := sector[446:462]
	copy(entry[1:4], []byte{0x00, 0x02, 0x00}) // CHS of sector 1
	entry[4] = 0xEE
	copy(entry[5:8], []byte{0xFF, 0xFF, 0xFF})
	binary.LittleEndian.PutUint32(entry[8:], 1)
	binary.LittleEndian.PutUint32(entry[12:], uint32(min(diskBytes/SectorSize-1, math.MaxUint32)))
	sector[510], sector[511] = 0x55, 0xAA
	return sector, nil
}

// ReadTable reads a disk's partition table: the places of its partitions, and their unique GUIDs by
// label, in upper case.
func ReadTable(disk *os.File) ([]Part, map[string]string, error) {
	table, err := gpt.Read(disk, SectorSize, SectorSize)
	if err != nil {
		return nil, nil, fmt.Errorf("read partition table of %s: %w", disk.Name(), err)
	}
	var parts []Part
	guids := map[string]string{}
	for _, p := range table.Partitions {
		if p.Type == gpt.Unused {
			continue
		}
		parts = append(parts, Part{Label: p.Name, Index: p.Index, StartLBA: p.Start, EndLBA: p.End, TypeGUID: strings.ToUpper(string(p.Type)), Attributes: p.Attributes})
		guids[p.Name] = strings.ToUpper(p.GUID)
	}
	return parts, guids, nil
}
