# Run 1 of 1: blas, Enroot "NumPy 2.5, Enroot"
setup='ulimit -s unlimited'
limit=180
runtime=enroot
image=/scratch/images/numpy.sqfs
present=(test -e /scratch/images/numpy.sqfs)
version=(enroot version)
wall=(enroot start --env NVIDIA_VISIBLE_DEVICES=all --env NVIDIA_DRIVER_CAPABILITIES=all --mount '/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --mount /scratch/data:/data /scratch/images/numpy.sqfs /bin/sh -c 'cd -- "$0" && exec "$@"' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de')
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
