# Run 1 of 1: blas, Charliecloud "NumPy 2.5, Charliecloud"
setup='ulimit -s unlimited'
limit=180
runtime=ch-run
image=/scratch/images/numpy
present=(test -e /scratch/images/numpy)
version=(ch-run --version)
wall=(ch-run --write-fake '--unset-env=*' --set-env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin '--cd=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' '--bind=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --bind=/scratch/data:/data /scratch/images/numpy --)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
