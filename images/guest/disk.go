package guest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"regiond.dev/regiond/machine/diskimage"
)

// Positions on the disk in sectors. GRUB's image contains those of kernel and script: see
// images/node/customize.sh.
const (
	sectorGRUB   = 1 // boot.img, which loads core.img behind it
	sectorCore   = 2
	sectorKernel = 2048
	sectorScript = 3072
	sectorEnd    = 4096

	partitionTable = 446 // bytes into the first sector

	kernelSectors = sectorScript - sectorKernel
	scriptSectors = 64
)

// parts of the disk, as in Debian's packages.
type parts struct{ boot, core, kernel []byte }

// disk puts the parts and a script in their positions.
func disk(p parts, script string) ([]byte, error) {
	if len(p.kernel) > kernelSectors*diskimage.SectorSize {
		return nil, fmt.Errorf("guest: iPXE has %d bytes, the limit is %d", len(p.kernel), kernelSectors*diskimage.SectorSize)
	}
	// GRUB reads the whole area, so its rest has to be script too: empty lines.
	if len(script) > scriptSectors*diskimage.SectorSize {
		return nil, fmt.Errorf("guest: the script has %d bytes, the limit is %d", len(script), scriptSectors*diskimage.SectorSize)
	}
	if room := (sectorKernel - sectorCore) * diskimage.SectorSize; len(p.core) > room {
		return nil, fmt.Errorf("guest: GRUB's core.img has %d bytes, the limit is %d", len(p.core), room)
	}
	boot, core, err := diskimage.GRUBAt(p.boot, p.core, sectorCore)
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	image := make([]byte, sectorEnd*diskimage.SectorSize)
	copy(image, console)
	binary.LittleEndian.PutUint16(image[diskimage.SectorSize-2:], 0xaa55) // without it the BIOS does not boot the disk
	// A bootable disk must have a partition, or Nova refuses it as unsafe (oslo_utils.imageutils,
	// check_mbr_partitions). Nothing reads the partition. Entry as in the MBR:
	// active, type Linux, first sector, number of sectors; no CHS addresses.
	entry := image[partitionTable:]
	entry[0], entry[4] = 0x80, 0x83
	binary.LittleEndian.PutUint32(entry[8:], sectorGRUB)
	binary.LittleEndian.PutUint32(entry[12:], sectorEnd-sectorGRUB)
	for sector, content := range map[int][]byte{
		sectorGRUB: boot, sectorCore: core, sectorKernel: p.kernel,
		sectorScript: append([]byte(script), bytes.Repeat([]byte("\n"), scriptSectors*diskimage.SectorSize-len(script))...),
	} {
		copy(image[sector*diskimage.SectorSize:], content)
	}
	return image, nil
}
