#!/bin/bash
# Runs once inside the new root file system, as root, after its packages are installed: the user, udocker,
# the accounting database, and the settings that are the same in every lab.
set -euo pipefail
here=$(dirname "$(realpath "$0")")

# It replaces keys and databases, so it runs nowhere but in a root that was made for the lab.
if [ ! -f /etc/tare-lab/root ]; then
  echo "prepare: this is not the lab's root file system; nothing was done" >&2
  exit 1
fi

useradd --uid 20001 --shell /bin/bash --password '*' --no-create-home --comment 'A researcher' researcher

# --- udocker and uv, the two tools that Debian does not have
python3 -m venv /opt/tools
/opt/tools/bin/pip install --quiet --disable-pip-version-check --require-hashes \
  --requirement "$here/tools.lock"
ln -s /opt/tools/bin/udocker /usr/local/bin/udocker

# udocker fetches its engines at first use. They are made from Debian's own here, and put into every
# new home. udocker always passes `-k KERNEL` to proot, which breaks Debian's.
machine=$(uname -m)
engines=$(mktemp -d)
mkdir -p "$engines"/udocker_dir/{bin,lib,doc}
echo 1.2.11 >"$engines/udocker_dir/lib/VERSION"
cp "$here/proot.sh" "$engines/udocker_dir/bin/proot-$machine"
cp "$here/proot.sh" "$engines/udocker_dir/bin/proot-$machine-4_8_0"
cp /usr/bin/patchelf "$engines/udocker_dir/bin/patchelf-$machine"
chmod 755 "$engines"/udocker_dir/bin/*
tar -C "$engines" -czf "$engines/engines.tar.gz" udocker_dir
UDOCKER_DIR=/etc/skel/.udocker UDOCKER_TARBALL=$engines/engines.tar.gz \
  udocker --allow-root install >/dev/null
rm -rf "$engines"

# --- Podman without systemd, and without a cgroup manager that needs it
mkdir -p /etc/containers
printf '%s\n' '[engine]' 'runtime = "runc"' 'cgroup_manager = "cgroupfs"' 'events_logger = "file"' \
  >/etc/containers/containers.conf
printf '%s\n' '[storage]' 'driver = "overlay"' 'runroot = "/run/containers/storage"' \
  'graphroot = "/var/lib/containers/storage"' >/etc/containers/storage.conf

# --- munge and sshd: no two labs share a key, so start.sh makes them
rm -f /etc/munge/munge.key /etc/ssh/ssh_host_*
cp "$here/sshd.conf" /etc/ssh/sshd_config
mkdir -p /etc/ssh/authorized_keys

# --- the accounting database: reached through its socket only, so that there is no password and no port
cp "$here/mariadb.cnf" /etc/mysql/mariadb.conf.d/99-lab.cnf
rm -rf /var/lib/mysql
mariadb-install-db --user=mysql --skip-test-db >/dev/null
install -o slurm -m 600 /dev/null /etc/slurm/slurmdbd.conf

version() { # NAME COMMAND...: the first number that the command prints
  local number
  number=$("${@:2}" 2>&1 | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)*' | head -n 1)
  echo "$1 $number"
}
{
  sed -n 's/^PRETTY_NAME="\(.*\)"/os \1/p' /etc/os-release
  version slurm slurmctld -V
  version python python3 --version
  version apptainer apptainer --version
  version udocker grep '^udocker==' "$here/tools.lock"
  version podman podman --version
  version charliecloud env USER=root ch-run --version
  version openmpi mpirun --version
} >/etc/tare-lab/versions
