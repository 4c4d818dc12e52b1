# Run 1 of 1: blas, Bare metal "NumPy 2.5, Bare metal"
setup='ulimit -s unlimited'
limit=180
runtime=''
image=''
present=(true)
version=(true)
wall=()
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
