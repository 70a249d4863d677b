// Package oci builds the container images of OpenStack's control plane from Debian's packages,
// without a container engine, and keeps them in an OCI image layout
// (https://github.com/opencontainers/image-spec, image-layout.md), which package registry serves.
//
// An image is a stack of layers: base (mmdebstrap), for OpenStack's services common (what most of
// them need), and the image's own layer. A layer is a tar file of what apt-get wrote into the upper
// folder of an overlay file system. recipe/ says which packages are in which layer, and which files
// are left out.
//
// The images of an OpenStack release are a set. One set per release is the current one; the
// previous one is kept, because its images may still be running. A set is built once per recipe: a
// build of the same recipe does nothing, unless it is told to fetch Debian's packages again
// (Refresh). A build that was killed resumes with the layer it was building.
//
// recipe/RELEASE.lock records the package versions that the project was tested with, as in package
// images. To update it, build with --refresh, test, and copy RELEASE.lock from the oci folder over
// it.
package oci
