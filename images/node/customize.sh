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
# What Debian's services bring as configuration is regiond's to write (machine/configuration): placeholders must not be taken for it.
# rootwrap's files stay, they belong to the programs; no service may put others in their place.
find "$root/etc/nova" "$root/etc/neutron" -type f ! -path '*/rootwrap.conf' ! -path '*/rootwrap.d/*' -delete
find "$root/etc/nova" "$root/etc/neutron" -mindepth 1 -type d -empty -delete
chroot "$root" chown -R root:nova /etc/nova
chroot "$root" chown -R root:neutron /etc/neutron
chmod 0750 "$root/etc/nova" "$root/etc/neutron"
rm -rf "$root/etc/default/libvirtd" "$root/etc/default/virtlogd" "$root/etc/default/openvswitch-switch" "$root/etc/haproxy" \
	"$root/etc/openvswitch/conf.db" "$root"/etc/libvirt/qemu/networks
# NumPy's, which node/exclude leaves out. Their packages refuse to be installed without them.
rm -r "$root/usr/lib/x86_64-linux-gnu/blas" "$root/usr/lib/x86_64-linux-gnu/lapack"
# Debian's own request that iscsid makes a name at its first start, instead of one name for all nodes.
echo GenerateName=yes > "$root/etc/iscsi/initiatorname.iscsi"
# The agent writes units, not init scripts. Those of packages would be made units by systemd.
rm -rf "$root"/etc/init.d "$root"/etc/rc?.d
chroot "$root" usermod --append --groups kvm,libvirt nova
# Python's modules are compiled once (see essential.sh), so that they are valid whatever the times of the sources are: the image
# sets those, and a service that cannot write beside them would compile them at every start. Files that are no Python 3 (templates) are not compiled.
rm "$root/usr/bin/py3compile"
chroot "$root" dpkg-divert --quiet --local --rename --remove /usr/bin/py3compile
chroot "$root" python3 -m compileall -qq -f -j 0 --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.* || true
# GRUB's image holds all modules that it needs. Its prefix names partition 2, the ESP, of the disk that
# the BIOS booted from, so that a second disk with an older installation does not confuse it.
chroot "$root" env LD_LIBRARY_PATH=/tmp/tools/usr/lib/x86_64-linux-gnu /tmp/tools/usr/bin/grub-mkimage \
	--directory /tmp/tools/usr/lib/grub/i386-pc --format i386-pc --prefix '(,gpt2)/grub' --output /tmp/core.img \
	biosdisk part_gpt fat normal linux loadenv test serial terminal echo sleep reboot boot
mv "$root/tmp/core.img" "$out/boot/"
cp "$root/tmp/tools/usr/lib/grub/i386-pc/boot.img" "$out/boot/"
cp "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" "$out/boot/"
# The test guest of images/guest: iPXE as a kernel, and a GRUB that starts it with a script, both from their places on the
# disk (sectors of 512 bytes, as images/guest writes them). It has no `normal` module: these lines are run as they are.
mkdir -p "$out/guest"
printf '%s\n' 'linux16 (hd0)2048+1024' 'initrd16 (hd0)3072+64' boot > "$root/tmp/guest.cfg"
chroot "$root" env LD_LIBRARY_PATH=/tmp/tools/usr/lib/x86_64-linux-gnu /tmp/tools/usr/bin/grub-mkimage \
	--directory /tmp/tools/usr/lib/grub/i386-pc --format i386-pc --prefix '(hd0)' --config /tmp/guest.cfg \
	--output /tmp/core.img biosdisk linux16 boot
mv "$root/tmp/core.img" "$out/guest/"
cp "$root/tmp/tools/usr/lib/grub/i386-pc/boot.img" "$root/tmp/tools/usr/lib/ipxe/ipxe.lkrn" "$out/guest/"
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
rm -rf "$root"/boot/* "$root"/vmlinuz* "$root"/initrd.img* "$root/tmp/tools" "$root/tmp/guest.cfg" "$out/debs"
