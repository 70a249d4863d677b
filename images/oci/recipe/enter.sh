#!/bin/sh
# Runs a command in layers: enter.sh LOWER UPPER WORK ROOT ARCHIVES COMMAND... The caller gives it a mount namespace of its
# own, so that nothing is mounted any more when it has ended, however it ended.
set -eu
lower=$1 upper=$2 work=$3 root=$4 archives=$5
shift 5
mkdir -p "$upper" "$root" "$archives/partial"
rm -rf "$work"
mkdir "$work"
mount -t overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work,index=off,metacopy=off,redirect_dir=off" overlay "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
	: > "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$archives" "$root/var/cache/apt/archives"
if [ -e "$root/etc/resolv.conf" ]; then
	mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
fi
exec chroot "$root" "$@"
