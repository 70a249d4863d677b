// Package diskimage is the format in which operating system images lie on the seed host and
// travel to servers: a manifest, and chunks named by their SHA-256. An image is a set of
// partition contents, not of a whole disk, so that the installer can write it to a disk of any
// size and the node agent can later write the same root file system to the inactive slot. How chunks
// are fetched, checked and written is here, too.
package diskimage

// ManifestFile and ChunkDir are the names inside an image's folder.
const (
	ManifestFile = "manifest.json"
	ChunkDir     = "chunks"
)

// ChunkSize is the most bytes of a partition that one chunk holds. All-zero MiB are left out.
const ChunkSize = 4 << 20

// Partition labels of an installed disk, in the order in which they lie on it. Slot B has the size
// of slot A and is written only by updates. The data partition takes the rest of the disk.
const (
	LabelBIOS  = "bios"
	LabelESP   = "esp"
	LabelRootA = "root-a"
	LabelRootB = "root-b"
	LabelData  = "data"
)

// Manifest describes an image.
type Manifest struct {
	// Version is release and recipe hash, e.g. trixie-1f3a9c0b7d42.
	Version string `json:"version"`
	// MBR is the boot code for BIOS (at most 440 bytes), written to the first sector.
	MBR []byte `json:"mbr,omitempty"`
	// Partitions in disk order: bios, esp, root-a, data. (root-b has no content.)
	Partitions []Partition `json:"partitions"`
	// KernelRelease of the image, for people.
	KernelRelease string `json:"kernelRelease"`
}

// Partition is one partition's size and content.
type Partition struct {
	Label string `json:"label"`
	// Size in bytes on the disk, a multiple of 1 MiB. The data partition's is its least.
	Size   int64   `json:"size"`
	Chunks []Chunk `json:"chunks"`
}

// Chunk is a run of bytes of a partition, compressed by itself (zstd frame, RFC 8878).
type Chunk struct {
	// Offset in the partition and Length of the plain bytes.
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// SHA256 of the compressed bytes, in hex; also the chunk's file name.
	SHA256 string `json:"sha256"`
	// Compressed size in bytes.
	Compressed int64 `json:"compressed"`
}
