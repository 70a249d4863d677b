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
# Users of services have the same number on every host and in every container image, and their packages take
# what is there. Files on the data partition outlive the image that they were made under.
account() { # name, number, home
	echo "$1:x:$2:" >> "$root/etc/group"
	echo "$1:x:$2:$2::$3:/usr/sbin/nologin" >> "$root/etc/passwd"
	echo "$1:!*:0::::::" >> "$root/etc/shadow"
}
root=$1
account nova 42436 /var/lib/nova
account neutron 42435 /var/lib/neutron
# Disks of guests belong to it. udev wants a number of the system's range.
echo "kvm:x:993:" >> "$root/etc/group"
# Packages compile their Python modules when they are installed; customize.sh does it for all of them at once.
chroot "$root" dpkg-divert --quiet --local --rename --add /usr/bin/py3compile
ln -s true "$root/usr/bin/py3compile"
