#!/bin/sh
# mmdebstrap runs this after the essential packages are installed; $1 is the root file system.
# The kernel's package asks for an initramfs generator. Ours is made by regiond, so an empty package
# stands in for it: the generator would take a minute and 60 MB to make something never booted.
set -eu
build=$1/tmp/stand-in
mkdir -p "$build/DEBIAN"
cat > "$build/DEBIAN/control" <<'CONTROL'
Package: regiond-no-initramfs-tool
Version: 1
Architecture: all
Maintainer: regiond <regiond@localhost>
Provides: linux-initramfs-tool
Description: stands in for an initramfs generator
CONTROL
chroot "$1" dpkg-deb --build /tmp/stand-in /tmp/stand-in.deb
chroot "$1" dpkg --install /tmp/stand-in.deb
rm -r "$build" "$1/tmp/stand-in.deb"
