# Run 1 of 1: blas, Singularity "NumPy 2.5, Singularity"
setup='ulimit -s unlimited'
limit=180
runtime=singularity
image=/scratch/images/numpy.sif
present=(test -e /scratch/images/numpy.sif)
version=(singularity --version)
wall=(singularity --silent exec --cleanenv --no-home '--pwd=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' --nv '--bind=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --bind=/scratch/data:/data /scratch/images/numpy.sif)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
