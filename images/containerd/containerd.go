// Package containerd pulls component images into this host's containerd before pods need them, and
// keeps the kubelet from removing them when the disk is full: their registry may be down when a pod
// has to restart.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"regiond.dev/regiond/images/oci"
)

// containerd's namespace of the kubelet's images, and the label of images that its CRI reports as
// pinned (internal/cri/labels). The kubelet's garbage collection skips pinned images.
const (
	namespaceHeader = "containerd-namespace"
	namespace       = "k8s.io"
	pinLabel        = "io.cri-containerd.pinned"
	pinned          = "pinned"
)

// Client is a connection to the containerd of this host.
type Client struct {
	connection *grpc.ClientConn
	imageDir   string
}

// Open connects to containerd's socket. imageDir is the images folder that the registry serves; it
// determines which sets are kept, and explains why a pull failed.
func Open(socket, imageDir string) (*Client, error) {
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("component images: connect to containerd at %s: %w", socket, err)
	}
	return &Client{connection: c, imageDir: imageDir}, nil
}

// Close closes the connection.
func (h *Client) Close() error { return h.connection.Close() }

// EnsurePulled pulls the images of a set that the host lacks and pins the whole set. Images of sets
// that are no longer kept lose their pin. progress is called before each pull with the image, its
// number and how many there are; it may be nil.
func (h *Client) EnsurePulled(ctx context.Context, set oci.Set, progress func(image string, number, of int)) error {
	var missing []string
	for _, name := range set.Names() {
		there, err := h.has(ctx, set.Images[name])
		if err != nil {
			return err
		}
		if !there {
			missing = append(missing, name)
		}
	}
	for n, name := range missing {
		if progress != nil {
			progress(name, n+1, len(missing))
		}
		if err := h.pull(ctx, set.Images[name]); err != nil {
			return err
		}
		// Pin it now, because the next pull may take long.
		if err := h.pin(ctx, set.Images[name].Reference(), pinned); err != nil {
			return err
		}
	}
	return h.pinKept(ctx, set)
}

func (h *Client) has(ctx context.Context, image oci.Image) (bool, error) {
	status, err := cri.NewImageServiceClient(h.connection).ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image.Reference()}})
	if err != nil {
		return false, fmt.Errorf("look up image %s in containerd: %w", image.Reference(), err)
	}
	return status.Image != nil, nil
}

func (h *Client) pull(ctx context.Context, image oci.Image) error {
	_, err := cri.NewImageServiceClient(h.connection).PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image.Reference()}})
	if err == nil {
		return nil
	}
	// containerd's error about a damaged blob does not name the file.
	var damaged *oci.MismatchError
	if found := oci.Verify(h.imageDir, image); errors.As(found, &damaged) {
		return found
	}
	return fmt.Errorf("pull image %s: %w", image.Reference(), err)
}

// pinKept pins the images of the set and of all kept sets, and unpins the other images of regiond's
// registry.
func (h *Client) pinKept(ctx context.Context, set oci.Set) error {
	kept, err := oci.Kept(h.imageDir)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, s := range append(kept, set) {
		for _, image := range s.Images {
			wanted[image.Reference()] = true
		}
	}
	list, err := imagesapi.NewImagesClient(h.connection).List(inNamespace(ctx), &imagesapi.ListImagesRequest{})
	if err != nil {
		return fmt.Errorf("list containerd's images: %w", err)
	}
	for _, image := range list.Images {
		if !strings.HasPrefix(image.Name, oci.Registry+"/") {
			continue
		}
		label := ""
		if wanted[image.Name] {
			label = pinned
		}
		if image.Labels[pinLabel] == label {
			continue
		}
		if err := h.pin(ctx, image.Name, label); err != nil {
			return err
		}
	}
	return nil
}

// pin sets an image's label; an empty one unpins it.
func (h *Client) pin(ctx context.Context, reference, label string) error {
	client := imagesapi.NewImagesClient(h.connection)
	_, err := client.Update(inNamespace(ctx), &imagesapi.UpdateImageRequest{
		// The mask leaves the target unchanged, but containerd 2.4 reads the field and panics if it is
		// missing.
		Image:      &imagesapi.Image{Name: reference, Labels: map[string]string{pinLabel: label}, Target: &types.Descriptor{}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + pinLabel}},
	})
	if err != nil {
		return fmt.Errorf("pin image %s: %w", reference, err)
	}
	return nil
}

func inNamespace(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
}
