// Package images builds what servers boot: the node's operating system image (Debian, made by
// mmdebstrap), the kernel and initramfs that install it over the network, and the network boot
// loaders.
//
// A build has two stages. The first builds Debian's root file system, which takes a minute or two,
// and caches it under the hash of the package lists and scripts in node/. The second, which takes
// seconds, adds regiond's own programs and configuration, creates the file systems and cuts them
// into chunks (machine/diskimage). An image's version is the hash of everything in it, including
// the exact package versions: an image of that version is built once and never changes.
//
// # Updating Debian's packages
//
// `regiond image build` uses the cached root file system; `regiond image build --refresh` fetches
// Debian's current packages. node/trixie.lock records the package versions that the project was
// tested with: a build prints differences from it, and `--locked` makes them an error. To update
// the lock, build with --refresh, test, and copy packages.lock from the image's folder over
// node/trixie.lock.
package images
