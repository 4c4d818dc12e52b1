# Run 1 of 1: blas, udocker "NumPy 2.5, udocker"
setup='ulimit -s unlimited'
limit=180
runtime=udocker
image=numpy-p1
present=(udocker inspect -p numpy-p1)
version=(udocker version)
wall=(/usr/bin/env UDOCKER_DEFAULT_EXECUTION_MODE=P1 udocker --quiet run --nobanner --entrypoint= '--workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' '--volume=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --volume=/scratch/data:/data numpy-p1 /bin/sh -c 'trap : HUP INT QUIT TERM USR1 USR2; exec 9>&2 2>/dev/null; (exec "$@" 2>&9 9>&-); exit "$?"' wait)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
