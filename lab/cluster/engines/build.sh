#!/bin/bash
# Runs inside a scratch copy of the cluster's root file system, as root: makes the engines that udocker
# would download, of Debian's packages, as /engines/engines.tar.gz. The compiler stays behind with the copy.
set -euo pipefail
here=$(dirname "$(realpath "$0")")

if [ ! -f /etc/tare-lab/root ]; then
  echo "engines: this is not the lab's root file system; nothing was done" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends gcc libc6-dev libfakechroot patchelf proot

machine=$(uname -m)
work=$(mktemp -d)
mkdir -p "$work"/udocker_dir/{bin,lib,doc}
cd "$work"
echo 1.2.11 >udocker_dir/lib/VERSION

# --- PRoot: one file that starts in any container
library() { ldd /usr/bin/proot | grep -oE "/\S*$1\S*"; }
cp /usr/bin/proot program
cp -L "$(library ld-linux)" loader
cp -L "$(library 'libc\.')" libc
cp -L "$(library libtalloc)" libtalloc
gcc -O2 -Wall -Wextra -static -o "udocker_dir/bin/proot-$machine" "$here/proot.c"
cp "udocker_dir/bin/proot-$machine" "udocker_dir/bin/proot-$machine-4_8_0"

# --- Fakechroot: Debian's library, which is given one more that tells it the folders that udocker binds. It
# needs a C library as new as this system's, so udocker is to take it for images of this system alone.
release=$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release)
fakechroot=udocker_dir/lib/libfakechroot-Debian-$release-$machine.so
cp -L "$(dpkg --listfiles libfakechroot | grep '/libfakechroot\.so$')" "$fakechroot"
gcc -O2 -Wall -Wextra -shared -fPIC -o udocker_dir/lib/bound_folders.so "$here/bound_folders.c"
patchelf --add-needed bound_folders.so --set-rpath "\$ORIGIN" "$fakechroot"
cp "$here/patchelf.sh" "udocker_dir/bin/patchelf-$machine"

chmod 755 udocker_dir/bin/*
tar -czf /engines/engines.tar.gz udocker_dir
