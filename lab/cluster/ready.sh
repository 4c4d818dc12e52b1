#!/bin/bash
# Runs as the researcher, over SSH: a step on both nodes and a batch job that ends well, known to accounting.
# Slurm may call a node idle before its slurmd is back, so nothing less than running something is proof.
set -euo pipefail
if scontrol show reservation ready >/dev/null 2>&1; then # jobs of the last start are waiting; see start.sh
  export SLURM_RESERVATION=ready SBATCH_RESERVATION=ready
fi
timeout 40 srun --quiet --immediate=30 --chdir=/ --nodes=2 true
id=$(sbatch --parsable --output=/dev/null --chdir=/ --wrap true)
for _ in {1..300}; do
  state=$(sacct --noheader --parsable2 --allocations --jobs="$id" --format=State)
  case $state in
  COMPLETED) exit 0 ;;
  '' | PENDING | RUNNING | COMPLETING) sleep 0.05 ;;
  *) break ;;
  esac
done
echo "ready: the test job $id ended as '$state'" >&2
exit 1
