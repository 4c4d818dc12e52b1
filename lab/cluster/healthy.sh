#!/bin/bash
# Exit 0 if the cluster works: it has started, its daemons run, and slurmctld answers.
set -euo pipefail

test -e /run/tare-lab.started
for name in sshd munged mariadbd slurmdbd slurmctld; do
  pgrep -x "$name" >/dev/null || { echo "$name does not run"; exit 1; }
done
for node in node1 node2; do
  pgrep -f "^/usr/sbin/slurmd -N $node" >/dev/null || { echo "slurmd of $node does not run"; exit 1; }
done
timeout 5 scontrol ping | grep -q 'is UP'
