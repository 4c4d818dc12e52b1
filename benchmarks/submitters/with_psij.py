"""JOBS jobs by psij-python, each a job of its own: JOBS FOLDER POLL_SECONDS."""

import sys
from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, ResourceSpecV1
from psij.executors.batch.slurm import SlurmExecutorConfig

count, folder, poll_seconds = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
config = SlurmExecutorConfig(
    work_directory=folder, queue_polling_interval=poll_seconds, initial_queue_polling_delay=0
)
executor = JobExecutor.get_instance("slurm", config=config)
spec = JobSpec(
    executable="/usr/bin/sleep",
    arguments=["1"],
    directory=folder,
    inherit_environment=False,
    launcher="single",
    resources=ResourceSpecV1(
        node_count=1, processes_per_node=1, cpu_cores_per_process=1, memory=400 << 20
    ),
    attributes=JobAttributes(duration=timedelta(minutes=2), queue_name="gpu"),
)
jobs = [Job(spec) for _ in range(count)]
for job in jobs:
    executor.submit(job)
statuses = [job.wait() for job in jobs]
failed = [status for status in statuses if status is None or status.exit_code]
if failed:
    sys.exit(f"{len(failed)} failed: {failed[0]}")
