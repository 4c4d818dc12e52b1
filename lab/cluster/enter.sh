#!/bin/bash
# Makes a folder the root of this process, which `unshare --mount --pid --fork` has just started, and
# runs COMMAND in it. A chroot would not do: inside one the kernel refuses user namespaces, and rootless
# containers need them.
#
#   enter.sh [--overlay STATE] ROOT [--bind SOURCE TARGET]... -- COMMAND...
#
# With --overlay ROOT stays as it is, and what is written goes to STATE/upper.
set -euo pipefail

if [ $$ != 1 ]; then
  echo "enter: this is not the first process of a new PID namespace; nothing was done" >&2
  exit 1
fi

mount --make-rprivate /
if [ "$1" = --overlay ]; then
  state=$2 lower=$3
  shift 3
  root=$state/root
  mkdir -p "$state/upper" "$state/overlay" "$root"
  layers="lowerdir=$lower,upperdir=$state/upper,workdir=$state/overlay"
  if ! mount -t overlay overlay -o "$layers" "$root" 2>/dev/null; then
    # The folder is itself on an overlay (a container's disk): the changes then live in memory.
    mount -t tmpfs tmpfs "$state/overlay"
    mkdir -p "$state/overlay/upper" "$state/overlay/work"
    layers="lowerdir=$lower,upperdir=$state/overlay/upper,workdir=$state/overlay/work"
    mount -t overlay overlay -o "$layers" "$root"
  fi
else
  root=$1
  shift
  mount --bind "$root" "$root"
fi
while [ "$1" = --bind ]; do
  mkdir -p "$root$3"
  mount --bind "$2" "$root$3"
  shift 3
done
shift # --

mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
for folder in dev/shm tmp run; do
  mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"
done
chmod 755 "$root/run"
# Apptainer mounts SIF files through FUSE as the user, and the host may keep its device for root.
if [ -c "$root/dev/fuse" ]; then
  mknod -m 666 "$root/run/fuse" c 10 229
  mount --bind "$root/run/fuse" "$root/dev/fuse"
fi

# A host behind a proxy has its own names and its own certificate authority.
cp -L --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
{ cat /etc/hosts; echo "127.0.0.1 lab"; } >"$root/etc/hosts"
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi
hostname lab

cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
mount --make-rshared /
cd /
exec "$@"
