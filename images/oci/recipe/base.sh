#!/bin/sh
# mmdebstrap runs this after the base packages are installed. $1 is the root file system, $2 a file with the users.
set -eu
root=$1
while read -r name id; do
	chroot "$root" groupadd --gid "$id" "$name"
	chroot "$root" useradd --uid "$id" --gid "$id" --home-dir "/var/lib/$name" --no-create-home --shell /usr/sbin/nologin "$name"
done < "$2"
# Packages' scripts are content with a user that is there already if it is a system user.
printf 'FIRST_SYSTEM_UID=100\nLAST_SYSTEM_UID=49999\nFIRST_SYSTEM_GID=100\nLAST_SYSTEM_GID=49999\n' > "$root/etc/adduser.conf"
# No package starts its service.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root/var/cache/apt/archives/partial"
