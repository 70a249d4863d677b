package diskimage

import "fmt"

// SectorSize in bytes. Disks with sectors of 4096 bytes are not supported: the FAT file system of
// the ESP is made with sectors of 512 and Linux cannot mount it there.
const SectorSize = 512

const sectorsPerMiB = MiB / SectorSize

// Partition type GUIDs (UEFI 2.10 section 5.3.3, UAPI Discoverable Partitions Specification, GRUB
// manual "BIOS installation").
const (
	TypeBIOSBoot   = "21686148-6449-6E6F-744E-656564454649"
	TypeESP        = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
	TypeRootX86_64 = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
	TypeLinux      = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
)

// attributeNoAuto keeps systemd-gpt-auto-generator away from a root partition: which of the two
// slots is mounted is said on the kernel's command line.
const attributeNoAuto = 1 << 63

// Part is a partition's place on a disk.
type Part struct {
	Label string
	// Index in the partition table, from 1.
	Index int
	// StartLBA and EndLBA in sectors of SectorSize, both included.
	StartLBA, EndLBA uint64
	TypeGUID         string
	Attributes       uint64
}

// Offset of the partition on the disk in bytes.
func (p Part) Offset() int64 { return int64(p.StartLBA) * SectorSize }

// Bytes of the partition.
func (p Part) Bytes() int64 { return int64(p.EndLBA-p.StartLBA+1) * SectorSize }

// Layout places an image's partitions on a disk: from 1 MiB on without holes, root-b after root-a
// and of the same size, data up to the last whole MiB before the backup partition table.
func Layout(m *Manifest, diskBytes int64) ([]Part, error) {
	root, data := m.Partition(LabelRootA), m.Partition(LabelData)
	if root == nil || data == nil {
		return nil, fmt.Errorf("layout of image %s: its manifest lacks %s or %s", m.Version, LabelRootA, LabelData)
	}
	var parts []Part
	start := int64(MiB)
	place := func(label, typeGUID string, attributes uint64, size int64) {
		parts = append(parts, Part{
			Label: label, Index: len(parts) + 1,
			StartLBA: uint64(start / SectorSize), EndLBA: uint64((start+size)/SectorSize) - 1,
			TypeGUID: typeGUID, Attributes: attributes,
		})
		start += size
	}
	for i := range m.Partitions {
		p := &m.Partitions[i]
		switch p.Label {
		case LabelBIOS:
			place(p.Label, TypeBIOSBoot, 0, p.Size)
		case LabelESP:
			place(p.Label, TypeESP, 0, p.Size)
		case LabelRootA:
			place(LabelRootA, TypeRootX86_64, attributeNoAuto, p.Size)
			place(LabelRootB, TypeRootX86_64, attributeNoAuto, p.Size)
		}
	}
	// The last MiB holds the backup partition table (33 sectors) and is otherwise left alone.
	end := diskBytes/MiB*MiB - MiB
	if least := start + data.Size + MiB; end-start < data.Size {
		return nil, fmt.Errorf("image %s needs a disk of at least %d bytes (%d MiB); this one has %d bytes (%d MiB)",
			m.Version, least, least/MiB, diskBytes, diskBytes/MiB)
	}
	place(LabelData, TypeLinux, 0, end-start)
	return parts, nil
}

// FindPart returns the partition of that label.
func FindPart(parts []Part, label string) (Part, error) {
	for _, p := range parts {
		if p.Label == label {
			return p, nil
		}
	}
	return Part{}, fmt.Errorf("there is no partition %q in the layout", label)
}
