#!/bin/bash
# The first process of the cluster, in the namespace that `lab up` makes and in a container alike: starts
# every daemon, stays, and ends them in order on TERM.
#
# LAB_PORT is sshd's; slurmctld and slurmdbd have the two after it, the nodes +11 and +12. Grid Engine, where it
# is installed, has +3 and +4.
# LAB_LISTEN is the address that sshd listens on; Slurm's daemons listen on loopback alone.
# /var/lib/tare-lab/keys keeps the researcher's keys.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
port=${LAB_PORT:-27000}
keys=/var/lib/tare-lab/keys
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

if [ ! -f /etc/tare-lab/root ]; then
  echo "start: this is not the lab's root file system; nothing was done" >&2
  exit 1
fi

as() { setpriv --reuid "$1" --regid "$1" --init-groups -- "${@:2}"; }

wait_for() { # SECONDS COMMAND...
  local tries=$(($1 * 50))
  until "${@:2}" >/dev/null 2>&1; do
    if [ $((tries--)) -le 0 ]; then
      echo "start: no answer within $1 s from: ${*:2}" >&2
      return 1
    fi
    sleep 0.02
  done
}

fail() { # DAEMON LOG: says why a daemon does not run, and ends the lab
  echo "start: $1 does not run; $2 ends with:" >&2
  tail -n 5 "$2" >&2 || true
  # Seen: slurmdbd's getaddrinfo fails on a machine without any address but those of 127.0.0.0/8.
  if ! awk '/\|--/ { address = $2 } /host LOCAL/ && address !~ /^127\./ { any = 1 } END { exit !any }' /proc/net/fib_trie; then
    echo "start: this machine has no address but 127.0.0.1, which may be why: Slurm then fails to look up names." \
      "Give it another one, as root: ip address add 192.0.2.1/32 dev lo" >&2
  fi
  exit 1
}

end() { # SECONDS NAME: asks every process of that name to end, and waits
  pkill -x "$2" || return 0
  wait_for "$1" eval "! pgrep -x '$2'" || true
}

stop() {
  trap '' TERM INT
  end 1 'slurmd|slurmctld' # slurmctld saves its state, so that no job number is given twice
  end 1 'slurmdbd|mariadbd|sge_qmaster|sge_execd'
  exit 0
}
trap stop TERM INT

make_keys() {
  mkdir -p "$keys"
  chmod 700 "$keys"
  [ -f /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -C lab -f /etc/ssh/ssh_host_ed25519_key
  [ -f "$keys/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C researcher -f "$keys/id_ed25519"
  [ -f "$keys/id_passphrase" ] || ssh-keygen -q -t ed25519 -N 'pass phrase' -C researcher -f "$keys/id_passphrase"
  cat "$keys"/id_*.pub >/etc/ssh/authorized_keys/researcher
  if [ ! -f /etc/munge/munge.key ]; then
    dd if=/dev/urandom of=/etc/munge/munge.key bs=128 count=1 status=none
    chown munge: /etc/munge/munge.key
    chmod 400 /etc/munge/munge.key
  fi
}

configure() {
  local i node nodes
  for file in slurm.conf slurmdbd.conf; do
    sed -e "s/@HOST@/$(hostname -s)/; s/@CTLD_PORT@/$((port + 1))/; s/@DBD_PORT@/$((port + 2))/" \
      -e "s/@NODE1_PORT@/$((port + 11))/; s/@NODE2_PORT@/$((port + 12))/" "$here/$file" >/run/$file
    cat /run/$file >/etc/slurm/$file # keeps the owner and the mode
  done
  # The daemons bind to what this name resolves to: loopback, also where Docker has given it an address.
  sed "1i 127.0.0.1 $(hostname -s)" /etc/hosts >/run/hosts
  cat /run/hosts >/etc/hosts
  echo CgroupPlugin=disabled >/etc/slurm/cgroup.conf
  # Slurm sets CUDA_VISIBLE_DEVICES only for character devices; these behave like /dev/null.
  mkdir -p /var/lib/tare-lab/dev
  for i in 0 1 2 3; do
    [ -c /var/lib/tare-lab/dev/nvidia$i ] || mknod -m 666 /var/lib/tare-lab/dev/nvidia$i c 1 3
  done
  echo 'Name=gpu Type=h100 File=/var/lib/tare-lab/dev/nvidia[0-3]' >/etc/slurm/gres.conf
  # The same stand-ins for Podman: inside they are where a driver has its GPUs.
  mkdir -p /etc/cdi
  # (As mounts: for device nodes a rootless Podman takes the host's own path, whatever the file says.)
  node='{"hostPath": "/var/lib/tare-lab/dev/nvidiaN", "containerPath": "/dev/nvidiaN", "options": ["bind"]}'
  nodes="${node//N/0}, ${node//N/1}, ${node//N/2}, ${node//N/3}"
  echo '{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all",' \
    "\"containerEdits\": {\"mounts\": [$nodes]}}]}" >/etc/cdi/nvidia.json
}

make_folders() {
  mkdir -p /run/sshd /run/munge /run/mysqld /run/slurm /var/log/slurm /var/lib/slurm/slurmctld /var/lib/slurm/node{1,2}
  chown munge: /run/munge
  chown mysql: /run/mysqld
  chown slurm: /run/slurm /var/log/slurm /var/lib/slurm/slurmctld
  [ -d /home/researcher ] || cp -a /etc/skel /home/researcher
  mkdir -p /scratch/researcher
  [ "$(stat -c %U /home/researcher)" = researcher ] || chown -R researcher: /home/researcher
  chown researcher: /scratch/researcher
  chmod 700 /home/researcher
}

# Slurm's saved state still calls the jobs of the last start running, though every process of theirs ended
# with the lab. They would hold their nodes until their time limits. A node that is set down fails them
# at once, as NODE_FAIL, which is what happened to them.
end_lost_jobs() {
  [ -n "$(squeue --noheader --states=RUNNING,SUSPENDED,COMPLETING,CONFIGURING)" ] || return 0
  scontrol update nodename=node1,node2 state=down reason="the lab was started again"
  scontrol update nodename=node1,node2 state=resume
}

# What was waiting would start at once and leave ready.sh no node. Whoever starts the lab deletes the
# reservation after that test; where nobody does, it ends by itself.
keep_nodes_for_the_test() {
  [ -n "$(squeue --noheader --states=PENDING)" ] || return 0
  scontrol create reservation=ready nodes=node1,node2 users=researcher starttime=now duration=1 flags=ignore_jobs
}

make_folders
make_keys
configure
/usr/sbin/sshd -E /var/log/sshd.log -p "$port" -o ListenAddress="${LAB_LISTEN:-127.0.0.1}"
as munge /usr/sbin/munged --num-threads=4
/usr/sbin/mariadbd --user=mysql >/var/log/mariadbd.log 2>&1 &
wait_for 20 mariadb -e 'SELECT 1'
mariadb -e "CREATE DATABASE IF NOT EXISTS slurm_acct;
  CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
  GRANT ALL ON slurm_acct.* TO slurm@localhost"
as slurm /usr/sbin/slurmdbd || fail slurmdbd /var/log/slurm/slurmdbd.log
wait_for 20 timeout 2 sacctmgr -n list cluster || fail slurmdbd /var/log/slurm/slurmdbd.log
sacctmgr -i -Q add cluster lab >/dev/null 2>&1 || true # it is there already after the first start
as slurm /usr/sbin/slurmctld -i || fail slurmctld /var/log/slurm/slurmctld.log
wait_for 20 eval 'timeout 2 scontrol ping | grep -q "is UP"' || fail slurmctld /var/log/slurm/slurmctld.log
end_lost_jobs
keep_nodes_for_the_test
/usr/sbin/slurmd -N node1
/usr/sbin/slurmd -N node2
if [ -x /usr/sbin/sge_qmaster ]; then "$here/grid_engine.sh"; fi
touch /run/tare-lab.started
sleep infinity &
wait $!
