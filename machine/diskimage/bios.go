package diskimage

import (
	"encoding/binary"
	"fmt"
)

// biosStart is the first sector of the bios partition, which is always the first one.
const biosStart = sectorsPerMiB

// Offsets in GRUB's boot.img (include/grub/i386/pc/boot.h) and of the only block list of
// diskboot.img, the first sector of core.img: start (64 bits), length (16 bits), segment (16 bits).
const (
	bootKernelSector = 0x5c
	bootDrive        = 0x64
	bootDriveCheck   = 0x66
	diskbootList     = 0x1f4
	diskbootLength   = 0x1fc
)

// GRUBForBIOS patches GRUB's boot.img and core.img as grub-bios-setup does. The bios partition lies
// at 1 MiB on every disk, so this is done once, when an image is built: mbr goes into the
// manifest and bios is the content of the bios partition.
func GRUBForBIOS(bootImg, coreImg []byte) (mbr, bios []byte, err error) {
	if sectors := (len(coreImg) + SectorSize - 1) / SectorSize; sectors > sectorsPerMiB {
		return nil, nil, fmt.Errorf("core.img of GRUB has %d bytes, the bios partition has room for %d", len(coreImg), MiB)
	}
	boot, core, err := GRUBAt(bootImg, coreImg, biosStart)
	if err != nil {
		return nil, nil, err
	}
	bios = make([]byte, MiB)
	copy(bios, core)
	return boot[:maxBootCode], bios, nil
}

// GRUBAt patches copies of GRUB's boot.img and core.img for a disk that has core.img at a sector, in one piece. Whoever starts
// boot.img has to do it as the BIOS does.
func GRUBAt(bootImg, coreImg []byte, sector uint64) (boot, core []byte, err error) {
	if len(bootImg) != SectorSize {
		return nil, nil, fmt.Errorf("boot.img of GRUB has %d bytes, want %d", len(bootImg), SectorSize)
	}
	sectors := (len(coreImg) + SectorSize - 1) / SectorSize
	if sectors < 2 {
		return nil, nil, fmt.Errorf("core.img of GRUB has %d bytes, want more than one sector", len(coreImg))
	}
	boot = append([]byte(nil), bootImg...)
	binary.LittleEndian.PutUint64(boot[bootKernelSector:], sector)
	// Boot from the drive that the BIOS says, without the check that was meant for floppies.
	boot[bootDrive] = 0xff
	boot[bootDriveCheck], boot[bootDriveCheck+1] = 0x90, 0x90
	core = append([]byte(nil), coreImg...)
	binary.LittleEndian.PutUint64(core[diskbootList:], sector+1)
	binary.LittleEndian.PutUint16(core[diskbootLength:], uint16(sectors-1))
	return boot, core, nil
}
