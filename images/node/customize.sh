#!/bin/sh
# mmdebstrap runs this after all packages are installed. $1 is the root file system, $2 the folder for
# what is wanted beside it, $3 a file with the lines of node/drop, the rest are the packages of node/tools.
set -eu
root=$1 out=$2 drop=$3
shift 3
mkdir -p "$out/debs" "$out/boot" "$out/ipxe" "$root/tmp/tools"
( cd "$out/debs" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --quiet download "$@" )
for deb in "$out"/debs/*.deb; do
	dpkg-deb --extract "$deb" "$root/tmp/tools"
done
{
	chroot "$root" dpkg-query --show --showformat '${Package}=${Version}\n'
	for deb in "$out"/debs/*.deb; do
		dpkg-deb --show --showformat '${Package}=${Version}\n' "$deb"
	done
} > "$out/packages"
# GRUB's image holds all modules that it needs. Its prefix names partition 2, the ESP, of the disk that
# the BIOS booted from, so that a second disk with an older installation does not confuse it.
chroot "$root" env LD_LIBRARY_PATH=/tmp/tools/usr/lib/x86_64-linux-gnu /tmp/tools/usr/bin/grub-mkimage \
	--directory /tmp/tools/usr/lib/grub/i386-pc --format i386-pc --prefix '(,gpt2)/grub' --output /tmp/core.img \
	biosdisk part_gpt fat normal linux loadenv test serial terminal echo sleep reboot boot
mv "$root/tmp/core.img" "$out/boot/"
cp "$root/tmp/tools/usr/lib/grub/i386-pc/boot.img" "$out/boot/"
cp "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" "$out/boot/"
cp "$root/tmp/tools/usr/lib/ipxe/snponly.efi" "$root/tmp/tools/usr/lib/ipxe/undionly.kpxe" "$out/ipxe/"
# Drop modules of the listed folders, except those that others need. modules.dep names what a module
# needs, also indirectly.
release=$(ls "$root/usr/lib/modules")
(
	cd "$root/usr/lib/modules/$release"
	awk '
		NR == FNR { drop["kernel/" $1 "/"]; next }
		{
			file = $1
			sub(/:$/, "", file)
			for (folder in drop)
				if (index(file, folder) == 1) { left[file]; next }
			for (i = 2; i <= NF; i++)
				needed[$i]
		}
		END { for (file in left) if (!(file in needed)) print file }
	' "$drop" modules.dep | xargs -r rm
	find kernel -type d -empty -delete
)
chroot "$root" depmod "$release"
# The kernel goes to the ESP and is not needed twice.
cp "$root"/boot/vmlinuz-* "$out/boot/vmlinuz"
rm -rf "$root"/boot/* "$root"/vmlinuz* "$root"/initrd.img* "$root/tmp/tools" "$out/debs"
