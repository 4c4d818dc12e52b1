"""What tests of jobs on this machine share: waiting for them, and what they left."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec
from runners.records import Record, read_record
from runners.runner import Runner
from runners.workloads import WORKLOADS

PARAMETERS = WORKLOADS["blas"].clean({"steps": 3, "burn_in": 1, "matrix_size": 64})


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"


def started(job: JobSpec) -> Callable[[], bool]:
    return (Path(job.directory) / "started").exists


def finished(runner: Runner, job: JobSpec, job_id: str) -> Record:
    until(lambda: not runner.poll([job_id]))
    return read_record(runner.collect(job.directory))


def events(record: Record) -> list[str]:
    return [" ".join(filter(None, [line["event"], line.get("run")])) for line in record.journal]


def waiting(runner: Runner, job_id: str, reason: str) -> None:
    """Wait until this is why it waits."""
    until(lambda: runner.poll([job_id])[job_id].reason == reason)


def says(job: JobSpec, word: str) -> bool:
    """Whether the first program has printed this: it runs."""
    output = Path(job.locate_run(job.runs[0])) / "output.txt"
    return output.exists() and word in output.read_text()


def gates(folder: Path, names: str) -> dict[str, Path]:
    made = {name: folder / f"gate {name}" for name in names}
    for gate in made.values():
        os.mkfifo(gate)
    return made


def visible(record: Record) -> str:
    return record.runs["r0"].output_tail


def make_job(work: str = "/scratch/tare") -> JobSpec:
    environment = EnvironmentSpec(label="here", runtime="bare_metal", python=sys.executable)
    run = RunSpec("r0", 0, "blas", PARAMETERS, environment)
    resources = Resources(time_limit_seconds=60)
    return JobSpec("u1", "tare-u1-1", f"{work}/jobs/u1-1", (run,), resources)
