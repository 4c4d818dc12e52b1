#!/bin/bash
# Runs once inside a copy of the prepared root file system, as root: adds Grid Engine. Not one of the
# packages that debootstrap installs, because qmaster's set-up asks for the name of the machine it is on.
set -euo pipefail

if [ ! -f /etc/tare-lab/root ]; then
  echo "grid_engine_prepare: this is not the lab's root file system; nothing was done" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends gridengine-master gridengine-exec gridengine-client
apt-get clean
rm -rf /var/lib/apt/lists/*
dpkg-query -W -f 'grid_engine ${Version}\n' gridengine-master | sed 's/+.*//' >>/etc/tare-lab/versions
