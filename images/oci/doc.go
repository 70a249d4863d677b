// Package oci builds the container images of OpenStack's control plane out of Debian's packages, without a container
// engine, and keeps them as an OCI image layout (https://github.com/opencontainers/image-spec, image-layout.md) from
// which package registry serves them.
//
// An image is a stack of layers: base (mmdebstrap), for OpenStack's services common (what most of them need), and the
// image's own. A layer is what apt-get wrote into the upper folder of an overlay file system, as a tar file.
// recipe/ says which packages are in which layer, and what is left out.
//
// The images of an OpenStack release are a set. One set per release is the current one; the one before it is kept, as
// its images may still run. A set is built once per recipe: a build of the same recipe does nothing, unless it is told
// to fetch Debian's packages again (Refresh). A build that was killed goes on with the layer that it was at.
//
// recipe/RELEASE.lock records the package versions that the project was tested with, as in package images. To move
// it, build with --refresh, test, and copy RELEASE.lock from the oci folder over it.
package oci
