package images

import "regiond.dev/regiond/images/debian"

// prerequisites are files or programs, and the Debian packages that provide them.
var prerequisites = []debian.Prerequisite{
	{File: "mmdebstrap", Package: "mmdebstrap"},
	{File: debian.Keyring, Package: "debian-archive-keyring"},
	{File: "chroot", Package: "coreutils"},
	{File: "dpkg-deb", Package: "dpkg"},
	{File: "mcopy", Package: "mtools"},
	{File: "mke2fs", Package: "e2fsprogs"},
	{File: "mkfs.vfat", Package: "dosfstools"},
	{File: "tar", Package: "tar"},
	{File: "zstd", Package: "zstd"},
}
