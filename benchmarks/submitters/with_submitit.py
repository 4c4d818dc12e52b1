"""JOBS jobs by submitit, each a job of its own: JOBS FOLDER POLL_SECONDS."""

import sys

from submitit import SlurmExecutor
from submitit.helpers import CommandFunction

count, folder, poll_seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
executor = SlurmExecutor(folder=folder)
executor.update_parameters(
    partition="gpu",
    nodes=1,
    ntasks_per_node=1,
    cpus_per_task=1,
    mem="400M",
    time=2,
    signal_delay_s=10,  # else jobs of two minutes are warned of their end after some seconds
)
program = CommandFunction(["sleep", "1"], verbose=False)
jobs = [executor.submit(program) for _ in range(count)]
jobs[0].watcher._delay_s = poll_seconds  # else it asks after 2, 4, 8 s and so on
for job in jobs:
    job.result()
