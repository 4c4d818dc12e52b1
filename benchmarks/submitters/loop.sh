#!/bin/bash
# The plain loop: sbatch for each job, then wait until the last has left the queue. JOBS FOLDER POLL_SECONDS
set -e
cd "$2"
cat >job.sh <<'JOB'
#!/bin/bash
#SBATCH --job-name=loop
#SBATCH --output=/dev/null
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=400M
#SBATCH --time=2
#SBATCH --partition=gpu
#SBATCH --no-requeue
#SBATCH --export=NONE
sleep 1
JOB
for ((number = 0; number < $1; number++)); do
    sbatch --parsable job.sh >>ids
done
while [ -n "$(squeue --noheader --name=loop --format=%i)" ]; do
    sleep "$3"
done
