#!/bin/bash
# What sites run before and after each of Grid Engine's jobs, since it only counts GPUs: take as many as the job
# was promised, by directories that only one job can make, and tell the job which.  take|give
# No set -e: a prolog or epilog that fails closes the queue.
locks=/run/gpus
mkdir -p $locks

if [ "$1" = give ]; then
  for lock in "$locks"/*; do
    if [ "$(cat "$lock/job" 2>/dev/null)" = "$JOB_ID" ]; then rm -r "$lock"; fi
  done
  exit 0
fi
wanted=$(qstat -j "$JOB_ID" | sed -n 's/^hard resource_list:.*\bgpu=\([0-9]*\).*/\1/p')
if [ "${wanted:-0}" -gt 0 ]; then
  taken=()
  for number in 0 1 2 3; do
    if [ "${#taken[@]}" -lt "$wanted" ] && mkdir "$locks/$number" 2>/dev/null; then
      echo "$JOB_ID" >"$locks/$number/job"
      taken+=("$number")
    fi
  done
  echo "CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${taken[*]}")" >>"$SGE_JOB_SPOOL_DIR/environment"
fi
exit 0
