# Run 1 of 1: blas, Podman "NumPy 2.5, Podman"
setup='ulimit -s unlimited'
limit=180
runtime=podman
image=localhost/tare/numpy@sha256:7347
present=(podman image exists localhost/tare/numpy@sha256:7347)
version=(podman --version)
wall=(podman run --rm --pull=never --log-driver=none --network=host --pid=host --uts=host --http-proxy=false --userns=keep-id --entrypoint= '--workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' --device=nvidia.com/gpu=all --volume=/dev/shm:/dev/shm '--volume=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --volume=/scratch/data:/data localhost/tare/numpy@sha256:7347)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
