package kubeadm

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeImages makes, in one archive for containerd, the images that kubeadm's manifests name: as
// the published ones, each holds one program. kube-proxy's has nft besides, which it calls. Images
// whose program isn't in the folder are left out.
func writeImages(references []string, programs, archive string) error {
	images := map[name.Tag]v1.Image{}
	for _, reference := range references {
		tag, err := name.NewTag(reference)
		if err != nil {
			return err
		}
		program := path.Base(tag.RepositoryStr())
		files := map[string]string{"/usr/local/bin/" + program: filepath.Join(programs, program)}
		if _, err := os.Stat(files["/usr/local/bin/"+program]); err != nil {
			continue
		}
		if program == "kube-proxy" {
			if err := addProgram(files, "nft"); err != nil {
				return err
			}
		}
		if images[tag], err = newImage(files); err != nil {
			return fmt.Errorf("image of %s: %w", program, err)
		}
	}
	return tarball.MultiWriteToFile(archive, images)
}

// newImage has files, by their paths in it.
func newImage(files map[string]string) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for to, from := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(to, "/"), Mode: 0o755, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(layer.Bytes(), types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config = v1.Config{Env: []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	return mutate.ConfigFile(image, config)
}

// library in the output of ldd(1): "name => /path (address)", the loader "/path (address)".
var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// addProgram adds one of this machine's programs and the libraries that it is linked with.
func addProgram(files map[string]string, program string) error {
	file, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	out, err := exec.Command("ldd", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ldd %s: %w: %s", file, err, out)
	}
	files["/usr/sbin/"+program] = file
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		files[m[1]] = m[1]
	}
	return nil
}
