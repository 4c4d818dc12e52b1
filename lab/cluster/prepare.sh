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

# udocker downloads its engines at first use. engines/build.sh made them from Debian's packages, and they
# are put into every new home.
UDOCKER_DIR=/etc/skel/.udocker UDOCKER_TARBALL=/etc/tare-lab/engines.tar.gz \
  udocker --allow-root install >/dev/null
rm /etc/tare-lab/engines.tar.gz

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
