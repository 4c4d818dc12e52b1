# Run 1 of 1: blas, Sarus "NumPy 2.5, Sarus"
setup='ulimit -s unlimited'
limit=180
runtime=sarus
image=tare/numpy@sha256:7347
present=(true)
version=(sarus --version)
wall=(sh -c 'exec env -i PATH="$PATH" HOME="$HOME" USER="$USER" ${CUDA_VISIBLE_DEVICES+"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"} "$0" "$@"' sarus run --entrypoint '' '--workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' '--mount=type=bind,source=/scratch/jo'"'"'s work/jobs/5a3f-1,destination=/scratch/jo'"'"'s work/jobs/5a3f-1' --mount=type=bind,source=/scratch/data,destination=/data tare/numpy@sha256:7347)
variables=('TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
