// Package payload embeds the programs and images that regiond needs on the seed host and puts on
// servers, so that a binary and a region.yaml are all that needs to be installed. `make payload`
// (build.sh) builds the pieces from source into files/.
package payload

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Pieces. Extract extracts programs of the host; those of servers are read with Open when images
// are built.
const (
	// ContainerdShim runs and supervises the containers of one pod.
	ContainerdShim = "containerd-shim-runc-v2"
	// Runc is the OCI runtime, static with libseccomp.
	Runc = "runc"
	// Images is an archive with the images below, for containerd to import.
	Images = "images.tar"
	// RegiondNode is the agent on servers.
	RegiondNode = "regiond-node"
	// RegiondInit is /init of the netboot initramfs and of the installed system's initrd.
	RegiondInit = "regiond-init"
)

// Images in the archive. Their names show that no registry serves them.
const (
	// ImagePause holds a pod's namespaces open.
	ImagePause = "regiond.local/pause:1"
	// ImageCoreDNS is the cluster's DNS server.
	ImageCoreDNS = "regiond.local/coredns:1.15.0"
)

// CNIPlugins are the network plugins, called by their names in a CNI configuration.
var CNIPlugins = []string{"bridge", "host-local", "loopback", "portmap"}

// required is everything a region needs from its binary.
var required = append([]string{ContainerdShim, Runc, Images, RegiondNode, RegiondInit}, CNIPlugins...)

//go:embed all:files
var embedded embed.FS

// Manifest lists the pieces. The pack program writes it; its digest is the name of the folder that
// Extract writes.
type Manifest struct {
	Pieces []Piece `json:"pieces"`
}

// Piece is one file of the payload.
type Piece struct {
	Name string `json:"name"`
	// Size in bytes, uncompressed.
	Size int64 `json:"size"`
	// SHA256 of the uncompressed content, in hex.
	SHA256 string `json:"sha256"`
	// Host is true for pieces that the control plane runs or imports on its own host.
	Host bool `json:"host,omitempty"`
	// Executable pieces are programs.
	Executable bool `json:"executable,omitempty"`
}

// Payload is a set of pieces.
type Payload struct {
	files    fs.FS
	manifest Manifest
	digest   string
}

// Embedded returns the payload in this binary. It fails if the binary was built without one.
func Embedded() (*Payload, error) {
	files, err := fs.Sub(embedded, "files")
	if err != nil {
		return nil, fmt.Errorf("opening the embedded payload: %w", err)
	}
	return open(files)
}

func open(files fs.FS) (*Payload, error) {
	raw, err := fs.ReadFile(files, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this binary has no payload (missing: %s); run make payload, then rebuild", strings.Join(required, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the payload's manifest: %w", err)
	}
	p := &Payload{files: files, digest: digest(raw)}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p.manifest); err != nil {
		return nil, fmt.Errorf("reading the payload's manifest: %w; run make payload, then rebuild", err)
	}
	if missing := p.missing(); len(missing) > 0 {
		return nil, fmt.Errorf("this binary's payload lacks %s; run make payload, then rebuild", strings.Join(missing, ", "))
	}
	return p, nil
}

// missing lists required pieces that are not in the manifest or the files.
func (p *Payload) missing() []string {
	var out []string
	for _, name := range required {
		if _, ok := p.piece(name); !ok {
			out = append(out, name)
		} else if _, err := fs.Stat(p.files, name+".zst"); err != nil {
			out = append(out, name)
		}
	}
	return out
}

func (p *Payload) piece(name string) (Piece, bool) {
	for _, piece := range p.manifest.Pieces {
		if piece.Name == name {
			return piece, true
		}
	}
	return Piece{}, false
}

// Open returns a piece's uncompressed content.
func (p *Payload) Open(name string) (io.ReadCloser, error) {
	if _, ok := p.piece(name); !ok {
		return nil, fmt.Errorf("the payload has no piece %q", name)
	}
	f, err := p.files.Open(name + ".zst")
	if err != nil {
		return nil, fmt.Errorf("opening %s of the payload: %w", name, err)
	}
	// One goroutine: parallel decoding gains nothing on a busy two-core seed.
	decoder, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s of the payload: %w", name, err), f.Close())
	}
	return &reader{Decoder: decoder, file: f}, nil
}

type reader struct {
	*zstd.Decoder
	file fs.File
}

func (r *reader) Close() error {
	r.Decoder.Close()
	return r.file.Close()
}

// Open returns the uncompressed content of a piece of the embedded payload.
func Open(name string) (io.ReadCloser, error) {
	p, err := Embedded()
	if err != nil {
		return nil, err
	}
	return p.Open(name)
}

// Extract writes the host's pieces of the embedded payload to a folder below dir and returns it.
func Extract(dir string) (string, error) {
	p, err := Embedded()
	if err != nil {
		return "", err
	}
	return p.Extract(dir)
}
