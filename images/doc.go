// Package images builds what servers boot: the node's operating system image (Debian, made by
// mmdebstrap), the kernel and initramfs that install it over the network, and the network boot loaders.
//
// A build has two stages. The first makes Debian's root file system and takes a minute or two; its result is
// kept under the hash of the package lists and scripts in node/. The second adds regiond's own programs and
// configuration, makes the file systems and cuts them into chunks (machine/diskimage), in seconds. An
// image's version is the hash of all that went in, the exact package versions included: an image of
// that version is built once and never changed.
//
// # Updating Debian's packages
//
// `regiond image build` uses the root file system that it has; `regiond image build --refresh` fetches
// Debian's present state. node/trixie.lock records the package versions that the project was tested
// with: a build prints what differs from it, `--locked` makes that an error. To move the lock, build with
// --refresh, test, and copy packages.lock from the image's folder over node/trixie.lock.
package images
