# Run 1 of 1: blas, Pyxis "NumPy 2.5, Pyxis"
setup='ulimit -s unlimited'
limit=180
runtime=srun
image=/scratch/images/numpy.sqfs
present=(test -e /scratch/images/numpy.sqfs)
version=(srun --version)
wall=(srun --ntasks=1 --overlap --cpu-bind=none --no-container-mount-home --export=NVIDIA_VISIBLE_DEVICES=all,NVIDIA_DRIVER_CAPABILITIES=all --no-container-remap-root --no-container-entrypoint '--container-workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' '--container-mounts=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1,/scratch/data:/data' --container-image=/scratch/images/numpy.sqfs)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
