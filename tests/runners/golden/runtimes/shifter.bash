# Run 1 of 1: blas, Shifter "NumPy 2.5, Shifter"
setup='ulimit -s unlimited'
limit=180
runtime=shifter
image=docker:tare/numpy:2.5
present=(shifterimg lookup docker:tare/numpy:2.5)
version=(shifter --help)
wall=(sh -c 'exec env -i PATH="$PATH" HOME="$HOME" USER="$USER" ${CUDA_VISIBLE_DEVICES+"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"} "$0" "$@"' shifter --image=docker:tare/numpy:2.5 '--workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' --module=gpu '--volume=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' --volume=/scratch/data:/data)
variables=("${visible_gpus[@]}" 'TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 OMP_NUM_THREADS=4)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de
