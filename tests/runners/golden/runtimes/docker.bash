# Run 1 of 1: blas, Docker "NumPy 2.5, Docker"
setup='ulimit -s unlimited'
limit=180
runtime=docker
image=tare/numpy@sha256:7347
present=(docker image inspect tare/numpy@sha256:7347)
version=(docker --version)
wall=(sh -c 'exec "$0" run --user="$(id -u):$(id -g)" "$@"' docker --rm --init --pull=never --log-driver=none --network=host --uts=host --entrypoint= '--workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' --gpus=all --volume=/dev/shm:/dev/shm '--volume=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --volume=/scratch/data:/data tare/numpy@sha256:7347)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
